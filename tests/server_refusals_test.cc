// Tests what a server refuses, when, and in which words.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/support/tiny_server.h"

namespace troika {
namespace {

using test_support::HttpAnswer;
using test_support::HttpClient;
using test_support::Json;

using ServerRefusals = test_support::ServerTest;

std::string object_of_keys(int n) {
  std::string keys = R"("prompt":"a")";
  for (int i = 1; i < n; ++i) keys += ",\"" + std::to_string(i) + "\":1";
  return "{" + keys + "}";
}

std::string list_of(const std::string& value, int n) {
  std::string values = value;
  for (int i = 1; i < n; ++i) values += "," + value;
  return "[" + values + "]";
}

// Requests that cannot be read soon are told so, instead of waiting in a line without an end.
TEST_F(ServerRefusals, TheLineOfRequestsToBeReadHasAnEnd) {
  server::ServiceOptions options;
  options.n_unread = 0;
  start(std::move(options));
  const HttpAnswer refused = client().post("/tokenize", R"({"content":"a"})");
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.head.find("retry-after: "), std::string::npos) << refused.head;
  EXPECT_NE(refused.body.find("Too many requests wait to be read"), std::string::npos)
      << refused.body;
  EXPECT_EQ(client().get("/health").status, 200);
}

// One request must not keep others from being read for long.
TEST_F(ServerRefusals, CountsPromptsBeforeItMakesTokensOfThem) {
  start();
  const auto refusal = [&](const char* path, const std::string& prompts, const char* more = "") {
    const std::string body = R"({"prompt":)" + prompts + more + "}";
    return post(path, body, 400)["error"]["message"].get<std::string>();
  };
  // The last of the prompts would be refused if it were looked at.
  for (const char* const path : {"/v1/completions", "/completion"}) {
    const std::string texts = list_of(R"("a")", 68);
    const std::string with_bad = texts.substr(0, texts.size() - 1) + ",[99999999]]";
    EXPECT_NE(refusal(path, with_bad).find("asks for 69 answers"), std::string::npos);
    EXPECT_NE(refusal(path, R"(["a",[99999999]])", R"(,"n":35)").find("asks for 70 answers"),
              std::string::npos);
    const std::string long_texts = list_of("\"" + std::string(size_t{100} << 10, ' ') + "\"", 68);
    EXPECT_NE(refusal(path, long_texts).find("bytes long together"), std::string::npos);
  }
  const std::string mixed = "[1," + list_of(R"("        ")", 68).substr(1);
  EXPECT_EQ(post("/completion", R"({"prompt":)" + mixed + R"(,"n_predict":1})")["index"], 0);
  const std::string parts = "[1," + list_of("\"" + std::string(10000, ' ') + "\"", 68).substr(1);
  EXPECT_NE(refusal("/completion", parts).find("at least"), std::string::npos);
}

// A template may take long over a conversation, and nobody reads another request meanwhile.
TEST_F(ServerRefusals, AsksTheTemplateForNoConversationThatCannotFit) {
  server::ServiceOptions options;
  options.chat_template = "{{ raise_exception('The template was asked.') }}";
  start(std::move(options), 1024);
  const auto refusal = [&](const char* path, const std::string& messages) {
    const std::string body = R"({"max_tokens":1,"messages":)" + messages + "}";
    return post(path, body, 400)["error"]["message"].get<std::string>();
  };
  const auto message = [](const std::string& text) {
    return R"({"role":"user","content":")" + text + "\"}";
  };
  const char* const path = "/v1/chat/completions";
  EXPECT_NE(refusal(path, list_of(message("a"), 1023)).find("was asked"), std::string::npos);
  for (const char* const any : {path, "/v1/chat/completions/input_tokens", "/v1/messages",
                                "/v1/messages/count_tokens", "/apply-template"}) {
    SCOPED_TRACE(any);
    EXPECT_NE(refusal(any, list_of(message("a"), 1024)).find("has 1024 messages, and the context"),
              std::string::npos);
    // They are counted before they are read.
    EXPECT_NE(refusal(any, list_of("5", 2000)).find("has 2000 messages"), std::string::npos);
  }
  // Results of tools are messages of their own.
  const std::string results =
      R"([{"role":"user","content":)" +
      list_of(R"({"type":"tool_result","tool_use_id":"a","content":"b"})", 1024) + "}]";
  EXPECT_NE(refusal("/v1/messages", results).find("has 1025 messages and parts of them"),
            std::string::npos);
  for (const char* const any : {"/v1/responses", "/v1/responses/input_tokens"}) {
    const std::string body = R"({"input":)" + list_of(message("a"), 1024) + "}";
    EXPECT_NE(post(any, body, 400)["error"]["message"].get<std::string>().find("has 1024 items"),
              std::string::npos);
  }
  const std::string half((size_t{2} << 20) + 1, 'a');
  EXPECT_NE(refusal(path, list_of(message(half), 1)).find("was asked"), std::string::npos);
  EXPECT_NE(refusal(path, list_of(message(half), 2)).find("at least"), std::string::npos);
  for (const char* const any : {"/v1/chat/completions/input_tokens", "/apply-template"}) {
    const std::string body = R"({"messages":)" + list_of(message(half), 2) + "}";
    EXPECT_NE(
        post(any, body, 400)["error"]["message"].get<std::string>().find("4194306 bytes long"),
        std::string::npos)
        << any;
  }
  // Texts of calls count, too.
  const std::string call =
      R"({"role":"assistant","content":"","tool_calls":[{"type":"function","id":"a","function":)"
      R"({"name":"f","arguments":"{\"a\":\")" +
      half + R"(\"}"}}]})";
  const std::string twice = "[" + message("a") + "," + call + "," + call + "]";
  EXPECT_NE(refusal("/v1/chat/completions/input_tokens", twice).find("bytes long"),
            std::string::npos);
}

// Each tool, call or part is read, copied and shown to the template, which takes long for very
// many.
TEST_F(ServerRefusals, CountsToolsCallsAndPartsBeforeTheyAreRead) {
  start({}, 1024);
  const std::string user = R"({"role":"user","content":"a"})";
  const auto refusal = [&](const char* path, const std::string& messages, const std::string& more) {
    const std::string body = R"({"max_tokens":1,"messages":)" + messages + more + "}";
    return post(path, body, 400)["error"]["message"].get<std::string>();
  };
  const std::string many = list_of("5", 1024);  // is refused in other words where it is read
  for (const char* const path : {"/v1/chat/completions", "/v1/chat/completions/input_tokens",
                                 "/v1/messages", "/v1/messages/count_tokens", "/apply-template"}) {
    SCOPED_TRACE(path);
    EXPECT_NE(refusal(path, "[" + user + "]", R"(,"tools":)" + many).find("has 1024 tools"),
              std::string::npos);
    const std::string calls =
        R"({"role":"assistant","content":"","tool_calls":)" + many + "}," + user;
    EXPECT_NE(refusal(path, "[" + calls + "]", "").find("has 1026 messages and parts"),
              std::string::npos);
    const std::string parts = R"({"role":"user","content":)" + many + "}";
    EXPECT_NE(refusal(path, "[" + parts + "]", "").find("has 1025 messages and parts"),
              std::string::npos);
  }
  for (const char* const path : {"/v1/responses", "/v1/responses/input_tokens"}) {
    const std::string body = R"({"input":"a","tool_choice":"none","tools":)" + many + "}";
    EXPECT_NE(post(path, body, 400)["error"]["message"].get<std::string>().find("has 1024 tools"),
              std::string::npos);
  }
}

// A grammar may take long, and the tokens of a prompt that is too long anyway need not be read.
TEST_F(ServerRefusals, LooksAtTheLengthOfAPromptFirst) {
  start({}, 1024);
  const auto refusal = [&](const char* path, const std::string& prompt, const char* more) {
    return post(path, "{" + prompt + more + "}", 400)["error"]["message"].get<std::string>();
  };
  constexpr const char* kNoGrammar = R"(,"grammar":"root ::= 5")";
  const std::string text = R"("prompt":")" + [] {
    std::string words;
    for (int i = 0; i < 1024; ++i) words += "a b ";
    return words;
  }() + "\"";
  const std::string message =
      R"("messages":[{"role":"user","content":)" + text.substr(text.find(':') + 1) + "}]";
  EXPECT_NE(refusal("/v1/chat/completions", message, kNoGrammar).find("The prompt has"),
            std::string::npos);
  const std::string tokens = R"("prompt":)" + list_of("-1", 1024);
  for (const char* const path : {"/v1/completions", "/completion"}) {
    EXPECT_NE(refusal(path, text, kNoGrammar).find("The prompt has"), std::string::npos);
    EXPECT_EQ(refusal(path, R"("prompt":"a")", kNoGrammar).find("The prompt has"),
              std::string::npos);
    EXPECT_NE(refusal(path, tokens, "").find("The prompt has 1024 tokens"), std::string::npos);
  }
}

// Texts of a list that say nothing are no tokens, however many there are.
TEST_F(ServerRefusals, CountsNoEmptyTexts) {
  start({}, 1024);
  const std::string empty = list_of(R"("")", 5000);
  const std::string body =
      R"({"n_predict":1,"prompt":[5,)" + empty.substr(1, empty.size() - 2) + R"(,6,"a"]})";
  EXPECT_LT(post("/completion", body)["tokens_evaluated"].get<int>(), 10);
}

TEST_F(ServerRefusals, RefusesInWordsBeforeTheFirstByte) {
  start();
  constexpr const char* kThoughtAlone = R"({"input":[{"type":"reasoning","id":"r","summary":[]}]})";
  const struct {
    const char* path;
    std::string body;
    int status;
    const char* part;
  } cases[] = {
      {"/v1/chat/completions", "{", 400, "no JSON"},
      {"/v1/chat/completions", std::string(200, '['), 400, "nested"},
      {"/v1/chat/completions", "[]", 400, "no object"},
      {"/v1/completions", object_of_keys(100'000), 400, "more than 2000 fields"},
      {"/v1/chat/completions", "{}", 400, "messages"},
      {"/v1/chat/completions", chat(R"(,"stream":true,"wish":1)"), 400, "wish"},
      {"/v1/chat/completions", chat(R"(,"temperature":-1)"), 400, "temperature"},
      {"/v1/chat/completions", chat(R"(,"n":1000)"), 400, "from 1 to 128"},
      {"/v1/chat/completions", chat(R"(,"n":100)"), 400, "at most 68"},
      {"/v1/chat/completions", chat(R"(,"logit_bias":{"99999999":1})"), 400, "token"},
      {"/v1/chat/completions", chat(R"(,"tool_choice":"required")"), 400, "no tools"},
      {"/v1/chat/completions",
       R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})",
       400, "reads texts only"},
      {"/v1/chat/completions", chat(R"(,"chat_template_kwargs":{"enable_thinking":"no"})"), 400,
       "enable_thinking"},
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":[{"type":5}]}]})", 400,
       "messages[0].content[0].type"},
      {"/v1/responses", R"({"input":"a","tool_choice":{"type":"function","name":5}})", 400,
       "tool_choice.name"},
      {"/v1/completions", R"({"prompt":""})", 400, "empty"},
      {"/v1/completions", R"({"prompt":[99999]})", 400, "no token"},
      {"/v1/completions", R"({"prompt":"a","suffix":"b"})", 400, "suffix"},
      {"/v1/responses", R"({"input":"a","previous_response_id":"r"})", 400, "keeps no responses"},
      {"/v1/responses", kThoughtAlone, 400, "holds no message"},
      {"/v1/responses/input_tokens", kThoughtAlone, 400, "holds no message"},
      {"/v1/messages", R"({"messages":[{"role":"user","content":"a"}]})", 400, "max_tokens"},
      {"/v1/embeddings", R"({"input":"a"})", 404, "embeddings"},
      {"/nowhere", "{}", 404, "/nowhere"},
  };
  for (const auto& one : cases) {
    const Json answer = post(one.path, one.body, one.status);
    EXPECT_NE(answer["error"]["message"].get<std::string>().find(one.part), std::string::npos)
        << one.path << " " << answer;
  }
  post("/v1/chat/completions", chat(R"(,"chat_template_kwargs":{"enable_thinking":null})"));
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "word ";
  const Json longer = post("/v1/completions", Json{{"prompt", text}}.dump(), 400);
  EXPECT_EQ(longer["error"]["code"], "context_length_exceeded");
  EXPECT_NE(longer["error"]["message"].get<std::string>().find("1024"), std::string::npos)
      << longer;
  HttpClient plain = client();
  plain.send("POST /v1/completions HTTP/1.1\r\nHost: a.evil.com\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(plain.read_answer().status, 403);
  plain.send(
      "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Type: text/plain\r\n"
      "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(plain.read_answer().status, 415);
  EXPECT_EQ(client().get("/v1/completions").status, 405);
}

// Fields are looked up by the thread that computes for all.
TEST_F(ServerRefusals, LooksUpSoManyFieldsOfAnAnswerAlone) {
  start();
  for (const std::string& names : {list_of(R"("content")", 101), std::string(R"("content")")}) {
    const Json refused =
        post("/completion", R"({"prompt":"a","response_fields":)" + names + "}", 400);
    EXPECT_EQ(refused["error"]["param"], "response_fields");
  }
  const Json few = post("/completion", R"({"prompt":"a","n_predict":1,"response_fields":)" +
                                           list_of(R"("stop")", 100) + "}");
  EXPECT_EQ(few.size(), 1u) << few;
}

TEST_F(ServerRefusals, TellsAMillionTokensAtOnce) {
  start();
  const std::pair<const char*, std::string> cases[] = {
      {"/tokenize", R"({"content":")" + std::string(1'000'001, '~') + R"("})"},
      {"/detokenize", R"({"tokens":)" + list_of("1", 1'000'001) + "}"}};
  for (const auto& [path, body] : cases) {
    const HttpAnswer refused = client().post(path, body);
    EXPECT_EQ(refused.status, 400) << path;
    EXPECT_NE(refused.body.find("at most 1000000"), std::string::npos) << path;
  }
}

TEST_F(ServerRefusals, NamesTheMethodsThatAPathHas) {
  start();
  const HttpAnswer read = client().get("/v1/completions");
  EXPECT_EQ(read.status, 405);
  EXPECT_NE(read.head.find("allow: POST\r\n"), std::string::npos) << read.head;
  const HttpAnswer posted = client().post("/health", "{}");
  EXPECT_EQ(posted.status, 405);
  EXPECT_NE(posted.head.find("allow: GET, HEAD\r\n"), std::string::npos) << posted.head;
  // Who sends no length is told of the method first, because a length would not help.
  const std::pair<const char*, int> without_length[] = {{"PUT /health", 405},
                                                        {"POST /health", 405},
                                                        {"PUT /v1/completions", 405},
                                                        {"POST /nowhere", 404},
                                                        {"POST /v1/completions", 411}};
  for (const auto& [line, status] : without_length) {
    HttpClient sender = client();
    sender.send(line + std::string(" HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    EXPECT_EQ(sender.read_answer().status, status) << line;
  }
}

TEST_F(ServerRefusals, WantsAKey) {
  server::ServiceOptions options;
  options.keys = {"first", "second"};
  start(std::move(options));
  EXPECT_EQ(client().get("/health").status, 200);
  EXPECT_EQ(client().get("/metrics").status, 401);
  EXPECT_EQ(client().get("/metrics", "Authorization: Bearer firs\r\n").status, 401);
  EXPECT_EQ(client().get("/metrics", "Authorization: Bearer second\r\n").status, 200);
  EXPECT_EQ(client().get("/metrics", "X-Api-Key: first\r\n").status, 200);
  EXPECT_EQ(client().post("/tokenize", R"({"content":"a"})").status, 401);
}

// Who may not ask is told so before the body, which nobody would read.
TEST_F(ServerRefusals, LooksAtTheHeadBeforeTheBody) {
  server::ServiceOptions options;
  options.keys = {"first"};
  start(std::move(options));
  const struct {
    const char* head;
    int status;
  } cases[] = {
      {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n", 401},
      {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n", 401},
      {"POST /v1/completions HTTP/1.1\r\nHost: a.evil.com\r\nX-Api-Key: first\r\n", 403},
      {"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: first\r\n", 404},
      {"POST /health HTTP/1.1\r\nHost: localhost\r\n", 405},
      {"PUT /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: first\r\n", 405},
      {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: first\r\n", 415},
  };
  for (const auto& one : cases) {
    HttpClient waiting = client();
    waiting.send(one.head + std::string("Content-Length: 16000000\r\n\r\n"));
    EXPECT_EQ(waiting.read_answer().status, one.status) << one.head;
  }
}

// What the HTTP layer refuses has the form of the interface that the path is of.
TEST_F(ServerRefusals, AreWrittenAsTheInterfaceWritesThem) {
  start();
  for (const auto& [path, is_anthropic] :
       {std::pair("/v1/messages", true), std::pair("/v1/chat/completions", false)}) {
    HttpClient large = client();
    large.send(std::string("POST ") + path +
               " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               "Content-Length: 99999999\r\n\r\n");
    const HttpAnswer answer = large.read_answer();
    EXPECT_EQ(answer.status, 413);
    const Json body = Json::parse(answer.body);
    EXPECT_EQ(body.value("type", ""), is_anthropic ? "error" : "") << body;
    EXPECT_EQ(body["error"]["type"], "request_too_large") << body;
  }
}

}  // namespace
}  // namespace troika
