// Tests what OpenAI's interfaces promise beyond the text of answers: counts, likelihoods, choices
// of tools, and the states of items.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/tiny_server.h"

namespace troika {
namespace {

using test_support::Json;
using test_support::kWeatherTool;

using ServerOpenai = test_support::ServerTest;

TEST_F(ServerOpenai, CountsAPromptOnceHoweverManyAnswersItHas) {
  start_with_text("Fine.");
  const Json one = post("/v1/chat/completions", chat(""))["usage"];
  const Json three = post("/v1/chat/completions", chat(R"(,"n":3)"))["usage"];
  EXPECT_EQ(three["prompt_tokens"], one["prompt_tokens"]);
  EXPECT_EQ(three["completion_tokens"].get<int>(), 3 * one["completion_tokens"].get<int>());
  EXPECT_LE(three["prompt_tokens_details"]["cached_tokens"], one["prompt_tokens"]);
  const std::vector<Json> events =
      stream("/v1/chat/completions",
             chat(R"(,"n":3,"stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_EQ(events[events.size() - 2]["usage"]["prompt_tokens"], one["prompt_tokens"]);

  const Json first = post("/v1/completions", R"({"prompt":"Once"})")["usage"];
  const Json second = post("/v1/completions", R"({"prompt":"Twice and"})")["usage"];
  const Json both = post("/v1/completions", R"({"prompt":["Once","Twice and"],"n":2})")["usage"];
  EXPECT_EQ(both["prompt_tokens"].get<int>(),
            first["prompt_tokens"].get<int>() + second["prompt_tokens"].get<int>());
}

TEST_F(ServerOpenai, CallsTheFunctionThatAResponseIsToldTo) {
  start();
  const auto ask = [](const std::string& choice) {
    return R"({"input":"a","max_output_tokens":200,"parallel_tool_calls":false,"tools":[)"
           R"({"type":"function","name":"left","parameters":{"type":"object","properties":{},)"
           R"("additionalProperties":false}},{"type":"function","name":"right","parameters":)"
           R"({"type":"object","properties":{},"additionalProperties":false}}],"tool_choice":)" +
           choice + "}";
  };
  // The model has random weights: it calls what it must.
  for (const char* const name : {"left", "right"}) {
    const std::string function = std::string(R"({"type":"function","name":")") + name + "\"}";
    const Json named = post("/v1/responses", ask(function));
    EXPECT_EQ(named["output"].back()["name"], name) << named;
    const Json allowed =
        post("/v1/responses",
             ask(R"({"type":"allowed_tools","mode":"required","tools":[)" + function + "]}"));
    EXPECT_EQ(allowed["output"].back()["name"], name) << allowed;
  }
  for (const char* const choice :
       {R"({"type":"file_search"})", R"({"type":"function"})", R"({"type":"function","name":"up"})",
        R"({"type":"function","name":1})", R"({"type":"allowed_tools","mode":"required"})",
        R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"mcp","server_label":"a"}]})",
        R"({"type":"mcp","server_label":"left"})", "1", "[]"}) {
    post("/v1/responses", ask(choice), 400);
  }
}

// The tools that are not allowed are left out of the prompt too.
TEST_F(ServerOpenai, CallsTheToolsThatAChatAllows) {
  start();
  const auto ask = [](const std::string& choice) {
    return R"({"messages":[{"role":"user","content":"Hi"}],"parallel_tool_calls":false,"tools":[)"
           R"({"type":"function","function":{"name":"left","parameters":{"type":"object",)"
           R"("properties":{},"additionalProperties":false}}},{"type":"function","function":)"
           R"({"name":"right","parameters":{"type":"object","properties":{},)"
           R"("additionalProperties":false}}}],"tool_choice":)" +
           choice + "}";
  };
  const auto allowing = [](const std::string& tools, const std::string& mode) {
    return R"({"type":"allowed_tools","allowed_tools":{"mode":")" + mode + R"(","tools":[)" +
           tools + "]}}";
  };
  const std::string left = R"({"type":"function","function":{"name":"left"}})";
  const std::string right = R"({"type":"function","function":{"name":"right"}})";
  const Json one = post("/v1/chat/completions", ask(allowing(right, "required")));
  EXPECT_EQ(one["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "right") << one;
  const auto prompt_with = [&](const std::string& choice) {
    return post("/apply-template", ask(choice))["prompt"].get<std::string>();
  };
  EXPECT_EQ(prompt_with(allowing(left + "," + right, "auto")), prompt_with(R"("auto")"));
  EXPECT_EQ(prompt_with(allowing(right, "auto")).find("left"), std::string::npos);
  for (const std::string& refused :
       {allowing(right, "none"), allowing("", "auto"),
        allowing(R"({"type":"function","function":{"name":"up"}})", "auto"),
        allowing(R"({"type":"custom","custom":{"name":"left"}})", "auto"),
        std::string(R"({"type":"allowed_tools"})")}) {
    post("/v1/chat/completions", ask(refused), 400);
  }
}

TEST_F(ServerOpenai, SaysWhichItemOfAResponseIsCut) {
  start_with_text("one two three four");
  const Json cut = post("/v1/responses", R"({"input":"a","max_output_tokens":3})");
  EXPECT_EQ(cut["status"], "incomplete");
  EXPECT_EQ(cut["output"][0]["status"], "incomplete") << cut;
  const Json whole = post("/v1/responses", R"({"input":"a"})");
  EXPECT_EQ(whole["output"][0]["status"], "completed") << whole;
  for (const bool is_cut : {true, false}) {
    const char* const status = is_cut ? "incomplete" : "completed";
    std::string body = R"({"input":"a","stream":true})";
    if (is_cut) body.insert(1, R"("max_output_tokens":3,)");
    int n_done = 0;
    for (const Json& event : stream("/v1/responses", body)) {
      if (event["type"] != "response.output_item.done") continue;
      ++n_done;
      EXPECT_EQ(event["item"]["status"], status) << event;
    }
    EXPECT_EQ(n_done, 1);
  }
}

TEST_F(ServerOpenai, CountsTheTokensOfAResponsesThoughts) {
  server::ServiceOptions options;
  // A template that names the mark behind thoughts is one of a model that thinks.
  options.chat_template = std::string(test_support::kServerTemplate) + "{#- </think> -#}";
  options.forced_texts = {"<think>Hm, hm.</think>Rome.", "Rome."};
  start(std::move(options));
  const Json thinks = post("/v1/responses", R"({"input":"a"})");
  EXPECT_EQ(thinks["output"][0]["type"], "reasoning") << thinks;
  const Json& usage = thinks["usage"];
  EXPECT_GT(usage["output_tokens_details"]["reasoning_tokens"], 0) << usage;
  EXPECT_LT(usage["output_tokens_details"]["reasoning_tokens"], usage["output_tokens"]) << usage;
  const Json plain = post("/v1/responses", R"({"input":"a"})");
  EXPECT_EQ(plain["usage"]["output_tokens_details"]["reasoning_tokens"], 0) << plain;
}

// Returns what the tokens of a list of likelihoods spell.
std::string spelled(const Json& likelihoods) {
  std::string text;
  for (const Json& token : likelihoods) text += token["token"].get<std::string>();
  return text;
}

TEST_F(ServerOpenai, TellsLikelihoodsInResponsesThatIncludeThem) {
  server::ServiceOptions options;
  // A template that names the mark behind thoughts is one of a model that thinks.
  options.chat_template = std::string(test_support::kServerTemplate) + "{#- </think> -#}";
  options.forced_texts = {"<think>Hm.</think>Fine."};
  start(std::move(options));
  for (const char* const wish : {R"("top_logprobs":2)", R"("include":1)"}) {
    const std::string body = std::string(R"({"input":"a",)") + wish + "}";
    const Json refused = post("/v1/responses", body, 400);
    EXPECT_NE(refused["error"]["param"], nullptr) << refused;
  }
  const std::string rest = R"("input":"a","top_logprobs":2,"include":)"
                           R"(["reasoning.encrypted_content","message.output_text.logprobs"]})";
  const Json whole = post("/v1/responses", "{" + rest);
  EXPECT_EQ(whole["top_logprobs"], 2);
  const Json& part = whole["output"][1]["content"][0];
  EXPECT_EQ(part["text"], "Fine.");
  EXPECT_EQ(spelled(part["logprobs"]), "Fine.") << "the mark behind the thoughts is no text";
  for (const Json& token : part["logprobs"]) {
    EXPECT_EQ(token["top_logprobs"].size(), 2u);
    EXPECT_FALSE(token["bytes"].empty());
  }
  Json grown = Json::array(), done;
  for (const Json& event : stream("/v1/responses", R"({"stream":true,)" + rest)) {
    if (event["type"] == "response.output_text.done") done = event["logprobs"];
    if (event["type"] != "response.output_text.delta") continue;
    for (const Json& token : event["logprobs"]) grown.push_back(token);
  }
  EXPECT_EQ(spelled(done), spelled(part["logprobs"]));
  EXPECT_EQ(grown, done);
  for (const Json& token : done) EXPECT_FALSE(token.contains("bytes")) << token;
}

TEST_F(ServerOpenai, TellsNoLikelihoodsInOtherResponses) {
  start_with_text("Fine.");
  const Json whole =
      post("/v1/responses",
           R"({"input":"a","top_logprobs":0,"include":["reasoning.encrypted_content"]})");
  EXPECT_EQ(whole["output"][0]["content"][0]["logprobs"], Json::array());
}

// The server holds back what may begin a stop string, and shows it when the answer has ended.
TEST_F(ServerOpenai, TellsHowLikelyTheTokensOfTheTextWereAlone) {
  server::ServiceOptions options;
  options.forced_texts = {"buz z", "buzz z"};
  start(std::move(options));
  const auto joined = [](const Json& choice) {
    std::string text;
    for (const Json& token : choice["logprobs"]["content"]) {
      text += token["token"].get<std::string>();
    }
    return text;
  };
  const Json whole =
      post("/v1/chat/completions", chat(R"(,"logprobs":true,"stop":["zz"])"))["choices"][0];
  EXPECT_EQ(whole["message"]["content"], "buz z");
  EXPECT_EQ(joined(whole), "buz z");
  const Json tokens = post("/tokenize", R"({"content":"buz z"})")["tokens"];
  EXPECT_EQ(whole["logprobs"]["content"].size(), tokens.size());
  const Json stopped =
      post("/v1/chat/completions", chat(R"(,"logprobs":true,"stop":["zz"])"))["choices"][0];
  EXPECT_EQ(stopped["message"]["content"], "bu");
  EXPECT_EQ(joined(stopped).substr(0, 2), "bu");
  EXPECT_EQ(joined(stopped).find("zz"), std::string::npos) << stopped;
}

// The first letter comes when the third is known, and the other two then begin the stop string.
TEST_F(ServerOpenai, TellsNoLikelihoodsOfWhatBeginsAStopString) {
  server::ServiceOptions options;
  options.forced_texts = {"qqqz"};
  start(std::move(options));
  ASSERT_EQ(post("/tokenize", R"({"content":"qqqz"})")["tokens"].size(), 4U);
  const Json stopped =
      post("/v1/chat/completions", chat(R"(,"logprobs":true,"stop":["qqz"])"))["choices"][0];
  EXPECT_EQ(stopped["message"]["content"], "q");
  const Json& told = stopped["logprobs"]["content"];
  ASSERT_EQ(told.size(), 1U) << told;
  EXPECT_EQ(told[0]["token"], "q");
}

TEST_F(ServerOpenai, AnswersWithoutATextAreTheLeastLikely) {
  server::ServiceOptions options;
  options.forced_texts = {"zz", "good"};
  start(std::move(options));
  const Json best = post("/v1/completions", R"({"prompt":"a","best_of":2,"n":1,"stop":["zz"]})");
  EXPECT_EQ(best["choices"][0]["text"], "good") << best;
}

// The second answer knows the prompt from the first one, which is not returned.
TEST_F(ServerOpenai, CallsNoPromptKnownThatOneOfTheAnswersHadToRead) {
  server::ServiceOptions options;
  options.forced_texts = {"zz", "good"};
  start(std::move(options));
  const Json best =
      post("/v1/completions", R"({"prompt":"One more","best_of":2,"n":1,"stop":["zz"]})");
  EXPECT_EQ(best["choices"][0]["text"], "good") << best;
  EXPECT_EQ(best["usage"]["prompt_tokens_details"]["cached_tokens"], 0) << best;
}

// White space in front of a call is held back until it is known that no call comes.
TEST_F(ServerOpenai, TellsOfNoStopStringBehindTextThatWasHeldBack) {
  start_with_text("Hi\nzz");
  const Json stopped = post("/v1/chat/completions",
                            chat(std::string(R"(,"logprobs":true,"stop":["zz"],)") + kWeatherTool));
  std::string text;
  for (const Json& token : stopped["choices"][0]["logprobs"]["content"]) {
    text += token["token"].get<std::string>();
  }
  EXPECT_EQ(text.find('z'), std::string::npos) << stopped;
  EXPECT_TRUE(text.starts_with("Hi")) << stopped;
}

TEST_F(ServerOpenai, CountsCharactersInFrontOfTokens) {
  start_with_text("\u00e9\u00e8z");
  const std::string body = R"({"prompt":"a","logprobs":0})";
  const Json whole = post("/v1/completions", body)["choices"][0];
  EXPECT_EQ(whole["text"], "\u00e9\u00e8z");
  EXPECT_EQ(whole["logprobs"]["text_offset"].front(), 0);
  EXPECT_EQ(whole["logprobs"]["text_offset"].back(), 2) << whole;
  Json last;
  for (const Json& event :
       stream("/v1/completions", R"({"prompt":"a","logprobs":0,"stream":true})")) {
    if (!event.is_object() || event["choices"][0]["logprobs"].is_null()) continue;
    for (const Json& one : event["choices"][0]["logprobs"]["text_offset"]) last = one;
  }
  EXPECT_EQ(last, 2);
}

TEST_F(ServerOpenai, RepeatsAPromptOnlyWithoutLikelihoods) {
  start_with_text(" upon");
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"Once","echo":true})")["choices"][0]["text"],
            "Once upon");
  const Json refused =
      post("/v1/completions", R"({"prompt":"Once","echo":true,"logprobs":0})", 400);
  EXPECT_EQ(refused["error"]["param"], "echo");
}

// A call may have been cut within its arguments, and clients send back what they got.
TEST_F(ServerOpenai, TakesEarlierCallsWhoseArgumentsAreNoObject) {
  start_with_text("Fine.");
  const auto ask = [](const std::string& arguments) {
    return R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[)"
           R"({"id":"1","type":"function","function":{"name":"f","arguments":)" +
           arguments + R"(}}]},{"role":"tool","tool_call_id":"1","content":"b"}]})";
  };
  for (const char* const arguments : {R"("{\"city\": \"Ro")", R"("[1]")", R"("Rome")"}) {
    post("/v1/chat/completions", ask(arguments));
    post("/v1/responses", std::string(R"({"input":[{"role":"user","content":"a"},{"type":)") +
                              R"("function_call","call_id":"1","name":"f","arguments":)" +
                              arguments + R"(},{"type":"function_call_output","call_id":"1",)" +
                              R"("output":"b"}]})");
  }
  const std::string prompt = post("/apply-template", ask(R"("Rome")"))["prompt"];
  EXPECT_NE(prompt.find(R"(<call>f("Rome")</call>)"), std::string::npos) << prompt;
  const Json refused = post("/v1/chat/completions", ask("5"), 400);
  EXPECT_EQ(refused["error"]["param"], "messages[1].tool_calls[0].function.arguments");
}

// A schema that does not say so is that of an object too, as a call has named arguments.
TEST_F(ServerOpenai, CallsToolsWithObjectsWhateverTheirSchemasLeaveOut) {
  start();
  for (const char* const schema :
       {"true", "{}", R"({"properties":{},"additionalProperties":false})",
        R"({"maxProperties":0})"}) {
    const std::string tools =
        std::string(R"(,"max_tokens":200,"tool_choice":"required","parallel_tool_calls":false,)") +
        R"("tools":[{"type":"function","function":{"name":"f","parameters":)" + schema + "}}]";
    const Json answer = post("/v1/chat/completions", chat(tools))["choices"][0];
    if (answer["finish_reason"] == "length") continue;  // a model of random weights wrote on
    const std::string arguments =
        answer["message"]["tool_calls"][0]["function"]["arguments"].get<std::string>();
    EXPECT_TRUE(Json::parse(arguments).is_object()) << schema << " " << answer;
  }
  const Json refused = post(
      "/v1/chat/completions",
      chat(
          R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"array"}}}])"),
      400);
  EXPECT_EQ(refused["error"]["param"], "tools[0].function.parameters.type");
}

TEST_F(ServerOpenai, ShowsTheModelByItsName) {
  start();
  const Json list = Json::parse(client().get("/v1/models").body);
  for (const char* const path : {"/v1/models/tiny", "/models/tiny", "/v1/models/%74in%79"}) {
    EXPECT_EQ(Json::parse(client().get(path).body), list["data"][0]) << path;
  }
  for (const char* const path : {"/v1/models/other", "/v1/models/tiny/x", "/v1/models/%"}) {
    const test_support::HttpAnswer answer = client().get(path);
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_EQ(Json::parse(answer.body)["error"]["code"], "model_not_found") << path;
  }
  EXPECT_EQ(client().post("/v1/models/tiny", "{}").status, 405);
}

}  // namespace
}  // namespace troika
