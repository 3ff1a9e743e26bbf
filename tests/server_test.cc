// Tests the server as its clients see it, with a tiny model behind a socket. Some tests give the
// text of answers.
#include "server/service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/generate.h"
#include "tests/support/sanitized.h"
#include "tests/support/tiny_server.h"

namespace troika {
namespace {

using test_support::HttpAnswer;
using test_support::HttpClient;
using test_support::Json;
using test_support::kServerContext;
using test_support::kWeatherTool;

using Server = test_support::ServerTest;

TEST_F(Server, AnswersAsTheEngineDoesAloneAndInCompany) {
  start();
  const std::vector<text::Token> prompt =
      tiny_->engine->tokenizer().encode("Once", {.add_special = true, .parse_special = true});
  engine::Session session(*tiny_->engine);
  engine::SamplerOptions options;
  options.temperature = 1.5f;
  options.seed = 7;
  engine::Sampler sampler(options);
  engine::GenerateOptions generate_options;
  generate_options.most_tokens = 40;
  const std::string expected =
      engine::generate(session, prompt, sampler, generate_options, {}).text;
  const std::string body =
      R"({"prompt":"Once","max_tokens":40,"temperature":1.5,"seed":7,"top_k":40,"ignore_eos":false})";
  EXPECT_EQ(post("/v1/completions", body)["choices"][0]["text"], expected);
  std::vector<std::thread> threads;
  threads.reserve(6);
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back(
        [&] { EXPECT_EQ(post("/v1/completions", body)["choices"][0]["text"], expected); });
  }
  for (std::thread& thread : threads) thread.join();
  std::string streamed;
  std::string in_stream = body;
  in_stream.insert(1, R"("stream":true,)");
  for (const Json& event : stream("/v1/completions", in_stream)) {
    if (event.is_object()) streamed += event["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(streamed, expected);
}

TEST_F(Server, ChatsInOnePieceAndInAStream) {
  start_with_text("Good day, you!");
  const Json whole = post("/v1/chat/completions", chat(""));
  EXPECT_EQ(whole["object"], "chat.completion");
  EXPECT_EQ(whole["choices"][0]["message"]["content"], "Good day, you!");
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(
      whole["usage"]["total_tokens"].get<int>(),
      whole["usage"]["prompt_tokens"].get<int>() + whole["usage"]["completion_tokens"].get<int>());

  const std::vector<Json> events =
      stream("/v1/chat/completions",
             chat(R"(,"stream":true,"n":2,"stream_options":{"include_usage":true})"));
  std::string texts[2], reasons[2];
  for (const Json& event : events) {
    if (!event.is_object() || event["choices"].empty()) continue;
    const Json& choice = event["choices"][0];
    const auto index = choice["index"].get<size_t>();
    const Json content = choice["delta"].value("content", Json());
    if (content.is_string()) texts[index] += content.get<std::string>();
    if (!choice["finish_reason"].is_null()) reasons[index] = choice["finish_reason"];
  }
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(texts[i], "Good day, you!");
    EXPECT_EQ(reasons[i], "stop");
  }
  EXPECT_EQ(events.front()["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_GT(events[events.size() - 2]["usage"]["completion_tokens"], 0);
}

TEST_F(Server, EndsAtStopsAndLengths) {
  start_with_text("one two three");
  const Json stopped = post("/v1/chat/completions", chat(R"(,"stop":[" th","zzz"])"));
  EXPECT_EQ(stopped["choices"][0]["message"]["content"], "one two");
  EXPECT_EQ(stopped["choices"][0]["finish_reason"], "stop");
  const Json cut = post("/v1/chat/completions", chat(R"(,"max_completion_tokens":2)"));
  EXPECT_EQ(cut["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(cut["usage"]["completion_tokens"], 2);
  const Json message = post(
      "/v1/messages",
      R"({"max_tokens":50,"stop_sequences":[" tw"],"messages":[{"role":"user","content":"a"}]})");
  EXPECT_EQ(message["stop_reason"], "stop_sequence");
  EXPECT_EQ(message["stop_sequence"], " tw");
  EXPECT_EQ(message["content"], Json::parse(R"([{"type":"text","text":"one"}])"));
}

// Likelihoods that are told together are limited, over all answers of a request.
TEST_F(Server, LimitsTheLikelihoodsThatAreToldTogether) {
  start();
  const auto many = [](const std::string& more) {
    return R"({"prompt":"a","n":40,"logprobs":20,"ignore_eos":true)" + more + "}";
  };
  const std::string refusal = post("/v1/completions", many(R"(,"max_tokens":400)"), 400).dump();
  EXPECT_NE(refusal.find("so 312 tokens here"), std::string::npos) << refusal;
  const Json few = post("/v1/completions", many(R"(,"max_tokens":12)"));
  EXPECT_EQ(few["choices"][39]["logprobs"]["tokens"].size(), 12u);
  // A stream tells them one by one.
  const std::string stream =
      client()
          .post("/v1/completions", many(R"(,"max_tokens":400,"stream":true,"stop":["e"])"))
          .body;
  EXPECT_TRUE(stream.ends_with("data: [DONE]\n\n"));
}

// Who says no number of tokens gets as many as their likelihoods allow.
TEST_F(Server, AnswersEndWhereTheirLikelihoodsWouldBeTooMany) {
  if (test::kIsSanitized) GTEST_SKIP() << "It takes long with a sanitizer.";
  start();
  const Json all = post("/v1/chat/completions",
                        R"({"messages":[{"role":"user","content":"Hi"}],"n":40,"logprobs":true,)"
                        R"("top_logprobs":20,"ignore_eos":true})");
  EXPECT_EQ(all["usage"]["completion_tokens"], 40 * 312);
  EXPECT_EQ(all["choices"][39]["finish_reason"], "length");
}

TEST_F(Server, TellsHowLikelyTokensWere) {
  start();
  const Json answer =
      post("/v1/chat/completions", chat(R"(,"logprobs":true,"top_logprobs":3,"ignore_eos":true)"));
  const Json& tokens = answer["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(tokens.size(), 60u);
  for (const Json& token : tokens) {
    ASSERT_EQ(token["top_logprobs"].size(), 3u);
    EXPECT_EQ(token["token"], token["top_logprobs"][0]["token"]);  // holds at temperature 0
    EXPECT_LE(token["logprob"], 0.0);
    EXPECT_LE(token["top_logprobs"][1]["logprob"], token["logprob"]);
  }
  const Json best =
      post("/v1/completions", R"({"prompt":"a","best_of":4,"n":2,"temperature":2,"logprobs":0})");
  ASSERT_EQ(best["choices"].size(), 2u);
  const auto mean = [&](size_t i) {
    double sum = 0.0;
    const Json& all = best["choices"][i]["logprobs"]["token_logprobs"];
    for (const Json& one : all) sum += one.get<double>();
    return sum / static_cast<double>(all.size());
  };
  EXPECT_GE(mean(0), mean(1));
  // Answers that are not returned took as long.
  const Json all = post(
      "/v1/completions",
      R"({"prompt":["a","b"],"best_of":4,"n":1,"temperature":2,"max_tokens":5,"ignore_eos":true})");
  EXPECT_EQ(all["choices"].size(), 2u);
  EXPECT_EQ(all["usage"]["completion_tokens"], 40) << all;
}

TEST_F(Server, CallsToolsInEveryInterface) {
  start_with_text("<call>weather({\"city\":\"Rome\"})</call>");
  const Json chat_answer = post("/v1/chat/completions", chat(std::string(",") + kWeatherTool));
  const Json& call = chat_answer["choices"][0]["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "weather") << chat_answer;
  EXPECT_EQ(call["function"]["arguments"], "{\"city\":\"Rome\"}");
  EXPECT_EQ(chat_answer["choices"][0]["finish_reason"], "tool_calls");

  std::string arguments;
  for (const Json& event :
       stream("/v1/chat/completions", chat(std::string(",\"stream\":true,") + kWeatherTool))) {
    if (!event.is_object()) continue;
    const Json& delta = event["choices"][0]["delta"];
    if (!delta.contains("tool_calls")) continue;
    EXPECT_EQ(delta["tool_calls"][0]["index"], 0);
    arguments += delta["tool_calls"][0]["function"]["arguments"].get<std::string>();
  }
  EXPECT_EQ(arguments, "{\"city\":\"Rome\"}");

  const Json message = post(
      "/v1/messages",
      R"({"max_tokens":99,"messages":[{"role":"user","content":"a"}],"tools":[{"name":"weather",)"
      R"("input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]})");
  EXPECT_EQ(message["stop_reason"], "tool_use");
  EXPECT_EQ(message["content"][0]["input"], Json::parse(R"({"city":"Rome"})"));
  const Json response = post(
      "/v1/responses", R"({"input":"a","tools":[{"type":"function","name":"weather","parameters":)"
                       R"({"type":"object","properties":{"city":{"type":"string"}}}}]})");
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["output"][0]["type"], "function_call");
  EXPECT_EQ(response["output"][0]["arguments"], "{\"city\":\"Rome\"}");
}

// Whoever is told of a finished call runs the tool, and half of the arguments are no arguments.
TEST_F(Server, DoesNotTakeACallForFinishedThatAStopStringCuts) {
  start_with_text("<call>weather({\"city\":\"Rome\"})</call>");
  const auto reason = [&](const std::string& stop) {
    const std::string more = ",\"stop\":[\"" + stop + "\"]," + kWeatherTool;
    const Json choice = post("/v1/chat/completions", chat(more))["choices"][0];
    EXPECT_EQ(choice["message"]["tool_calls"].size(), 1u) << choice;
    return choice["finish_reason"].get<std::string>();
  };
  EXPECT_EQ(reason("ome"), "stop");
  EXPECT_EQ(reason("</call>"), "tool_calls");
}

TEST_F(Server, HoldsAnswersToGrammars) {
  start();
  // A model of random weights calls the tool, because nothing else is allowed.
  const Json called = post("/v1/chat/completions",
                           chat(std::string(R"(,"max_tokens":200,"tool_choice":"required",)") +
                                R"("parallel_tool_calls":false,)" + kWeatherTool));
  const Json& calls = called["choices"][0]["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 1u) << called;
  const Json arguments = Json::parse(calls[0]["function"]["arguments"].get<std::string>());
  EXPECT_TRUE(arguments["city"].is_string());
  const Json held =
      post("/v1/chat/completions",
           chat(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":)"
                R"({"enum":["left","right"]}}})"));
  const std::string text = held["choices"][0]["message"]["content"];
  EXPECT_TRUE(text == "\"left\"" || text == "\"right\"") << text;
  const Json grammar = post("/v1/completions",
                            R"({"prompt":"a","grammar":"root ::= \"x\" | \"yy\"","max_tokens":9})");
  const std::string short_text = grammar["choices"][0]["text"];
  EXPECT_TRUE(short_text == "x" || short_text == "yy") << short_text;
  const Json bad = post("/v1/chat/completions",
                        chat(R"(,"response_format":{"type":"json_schema","json_schema":{"name":)"
                             R"("a","schema":{"type":"nothing"}}})"),
                        400);
  EXPECT_NE(bad["error"]["message"].get<std::string>().find("nothing"), std::string::npos) << bad;
}

TEST_F(Server, ANamedToolIsCalledOnceUnlessMoreIsAskedFor) {
  start();
  // Returns the most calls of an answer by a model of random weights, which goes on by chance.
  const auto most_calls = [&](const std::string& more) {
    size_t most = 0;
    for (int seed = 0; seed < 12; ++seed) {
      const std::string named =
          R"(,"max_tokens":200,"temperature":2,"seed":)" + std::to_string(seed) +
          R"(,"tool_choice":{"type":"function","function":{"name":"weather"}},)" + more;
      const Json answer = post("/v1/chat/completions", chat(named + kWeatherTool));
      most = std::max(most, answer["choices"][0]["message"]["tool_calls"].size());
    }
    return most;
  };
  EXPECT_GT(most_calls(R"("parallel_tool_calls":true,)"), 1u);
  EXPECT_EQ(most_calls(""), 1u);
  EXPECT_EQ(most_calls(R"("parallel_tool_calls":false,)"), 1u);
}

TEST_F(Server, StreamsMessagesAndResponsesAsEvents) {
  start_with_text("Fine.");
  std::vector<std::string> types;
  for (const Json& event :
       stream("/v1/messages",
              R"({"max_tokens":9,"stream":true,"messages":[{"role":"user","content":"a"}]})")) {
    if (types.empty() || types.back() != event["type"]) types.push_back(event["type"]);
  }
  EXPECT_EQ(types,
            (std::vector<std::string>{"message_start", "content_block_start", "content_block_delta",
                                      "content_block_stop", "message_delta", "message_stop"}));
  int number = 0;
  std::string text;
  const std::vector<Json> events = stream("/v1/responses", R"({"input":"a","stream":true})");
  for (const Json& event : events) {
    EXPECT_EQ(event["sequence_number"], number++);
    if (event["type"] == "response.output_text.delta") text += event["delta"].get<std::string>();
  }
  EXPECT_EQ(text, "Fine.");
  EXPECT_EQ(events.back()["type"], "response.completed");
  EXPECT_EQ(events.back()["response"]["output"][0]["content"][0]["text"], "Fine.");
}

TEST_F(Server, LeavesOffWhereTheClientHasLeft) {
  server::ServiceOptions options;
  options.n_parallel = 1;
  options.n_queue = 1;
  start(std::move(options), kServerContext);
  const std::string endless = R"({"prompt":"a","max_tokens":-1,"ignore_eos":true,"stream":true})";
  HttpClient first = client(), second = client();
  const auto ask = [&](HttpClient& who) {
    who.send(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: " +
        std::to_string(endless.size()) + "\r\n\r\n" + endless);
  };
  ask(first);
  first.read_until("data: ");
  ask(second);
  wait_for("answers_waiting", "1");
  const HttpAnswer third = client().post("/v1/completions", endless);
  EXPECT_EQ(third.status, 429);
  EXPECT_NE(third.head.find("retry-after: "), std::string::npos) << third.head;
  second.leave();
  wait_for("answers_waiting", "0");
  first.leave();
  wait_for("answers_running", "0");
  wait_for("answers_cancelled_total", "2");
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})")["choices"].size(), 1u);
}

TEST_F(Server, TellsClientsWhoseAnswersItDoesNotEnd) {
  server::ServiceOptions options;
  options.n_parallel = 1;
  http_options_.grace = 0;
  http_options_.last_words = 1e6;  // ends with the last client
  start(std::move(options), kServerContext);
  const auto ask = [](const HttpClient& who, const std::string& path, const std::string& body) {
    who.send("POST " + path +
             " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             "Content-Length: " +
             std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  HttpClient first = client(), second = client(), third = client();
  ask(first, "/v1/messages",
      R"({"messages":[{"role":"user","content":"a"}],"max_tokens":16000,"stream":true,)"
      R"("ignore_eos":true})");
  first.read_until("content_block_delta");
  ask(second, "/v1/completions", R"({"prompt":"a","stream":true})");
  ask(third, "/v1/completions", R"({"prompt":"a"})");
  wait_for("answers_waiting", "2");
  server_->stop();
  const std::string why = "The server stops";
  EXPECT_NE(first.read_until("no such text").find(why), std::string::npos);
  EXPECT_NE(second.read_until("no such text").find(why), std::string::npos);
  const HttpAnswer whole = third.read_answer();
  EXPECT_EQ(whole.status, 503);
  EXPECT_NE(whole.body.find(why), std::string::npos) << whole.body;
}

TEST_F(Server, PausesBehindAClientThatReadsNothing) {
  start_with_text(std::string(800, 'x'));
  // Each token makes an event of some 200 bytes. Other answers take the places of those that pause.
  const std::string body = R"({"prompt":"a","max_tokens":900,"stream":true,"n":4})";
  HttpClient slow = client();
  slow.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(post("/v1/completions", R"({"prompt":"b","max_tokens":5})")["choices"].size(), 1u);
  }
  EXPECT_NE(slow.read_until("[DONE]").find("[DONE]"), std::string::npos);
}

TEST_F(Server, KnowsTextsAndTokens) {
  start();
  const Json tokens = post("/tokenize", R"({"content":"héllo","with_pieces":false})")["tokens"];
  EXPECT_EQ(post("/detokenize", Json{{"tokens", tokens}}.dump())["content"], "héllo");
  const Json prompt = post("/apply-template", R"({"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(prompt["prompt"], "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  const Json count =
      post("/v1/messages/count_tokens", R"({"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_GT(count["input_tokens"], 2);
  for (const char* const path :
       {"/v1/chat/completions/input_tokens", "/v1/responses/input_tokens"}) {
    const Json other = post(path, R"({"messages":[{"role":"user","content":"Hi"}],"input":"Hi"})");
    EXPECT_EQ(other["input_tokens"], count["input_tokens"]) << path;
  }
  EXPECT_EQ(Json::parse(client().get("/v1/models").body)["data"][0]["id"], "tiny");
  EXPECT_EQ(Json::parse(client().get("/props").body)["context"], 1024);
  const Json slots = Json::parse(client().get("/slots").body);
  EXPECT_EQ(slots.size(), 4u);
  for (const Json& slot : slots) EXPECT_EQ(slot["is_processing"], false);
}

TEST_F(Server, KnowsTheRequestsOfLlamaCppsClients) {
  start_with_text("one\ntwo three");
  const Json whole = post("/completion", R"({"prompt":"Once","n_predict":30,"n_probs":2,)"
                                         R"("return_tokens":true,"seed":3,"stop":["thr"]})");
  EXPECT_EQ(whole["content"], "one\ntwo ");
  EXPECT_EQ(whole["stop_type"], "word");
  EXPECT_EQ(whole["stopping_word"], "thr");
  EXPECT_EQ(whole["has_new_line"], true);
  EXPECT_EQ(whole["prompt"], "Once");
  EXPECT_EQ(whole["generation_settings"]["seed"], 3);
  EXPECT_EQ(whole["tokens"].size(), whole["tokens_predicted"]);
  EXPECT_EQ(whole["completion_probabilities"][0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(whole["timings"]["predicted_n"], whole["tokens_predicted"]);

  const Json few =
      post("/completion", R"({"prompt":"Once","n_predict":2,)"
                          R"("response_fields":["content","generation_settings/seed","x"]})");
  EXPECT_EQ(few.size(), 2u);
  EXPECT_TRUE(few.contains("generation_settings/seed"));

  const Json list =
      post("/completion", R"({"prompt":["a",[1,2],{"prompt_string":"a"}],"n_predict":2})");
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["content"], list[2]["content"]);
  EXPECT_EQ(list[0]["stop_type"], "limit");
  EXPECT_EQ(post("/completion", R"({"prompt":[1,"a",2],"n_predict":1})")["tokens_predicted"], 1);

  std::string text;
  int n_tokens = 0;
  for (const Json& event : stream("/completion", R"({"prompt":"Once","stream":true})")) {
    text += event["content"].get<std::string>();
    n_tokens += static_cast<int>(event["tokens"].size());
    if (!event["stop"].get<bool>()) continue;
    EXPECT_EQ(event["stop_type"], "eos");
    EXPECT_GE(event["tokens_predicted"], n_tokens);
  }
  EXPECT_EQ(text, "one\ntwo three");
  EXPECT_GT(n_tokens, 2);
  post("/completion", R"({"prompt":{"prompt_string":"a","multimodal_data":["b"]}})", 400);
  post("/completion", R"({"prompt":"a","lora":[{"id":0}]})", 400);
  EXPECT_NE(client().get("/metrics").body.find("llamacpp:tokens_predicted_total "),
            std::string::npos);
}

TEST_F(Server, ShowsProgressAndTimingsOnDemand) {
  start_with_text("Good day");
  std::string text;
  for (int i = 0; i < 150; ++i) text += "word ";
  const Json message = {{"role", "user"}, {"content", text}};
  const Json wishes = {
      {"stream", true}, {"return_progress", true}, {"timings_per_token", true}, {"max_tokens", 50}};
  Json chat_body = wishes, plain_body = wishes, response_body = wishes;
  chat_body["messages"] = Json::array({message});
  plain_body["prompt"] = text;
  response_body["input"] = text;
  response_body.erase("max_tokens");
  const std::pair<const char*, Json> cases[] = {{"/v1/chat/completions", chat_body},
                                                {"/v1/messages", chat_body},
                                                {"/v1/completions", plain_body},
                                                {"/v1/responses", response_body}};
  for (const auto& [path, body] : cases) {
    int n_progress = 0, n_timings = 0, n_read = -1, n_prompt = 0, n_tokens = 0;
    for (const Json& event : stream(path, body.dump())) {
      if (!event.is_object()) continue;
      if (event.contains("prompt_progress")) {
        const Json& progress = event["prompt_progress"];
        n_prompt = progress["total"];
        if (n_progress++ == 0) {
          EXPECT_EQ(progress["processed"], progress["cache"]) << path;
        }
        EXPECT_GT(progress["processed"].get<int>(), n_read) << path;
        n_read = progress["processed"];
        EXPECT_EQ(n_timings, 0) << path << ": a prompt is read before its answer";
      }
      if (event.contains("timings") && !event.contains("prompt_progress")) {
        ++n_timings;
        EXPECT_GE(event["timings"]["predicted_n"].get<int>(), n_tokens) << path;
        n_tokens = event["timings"]["predicted_n"];
        EXPECT_EQ(event["timings"]["prompt_n"].get<int>() + event["timings"]["cache_n"].get<int>(),
                  n_prompt)
            << path;
      }
    }
    EXPECT_GE(n_progress, 2) << path;
    EXPECT_GE(n_timings, 2) << path;
    EXPECT_GT(n_tokens, 1) << path;
    EXPECT_EQ(n_read, n_prompt) << path;
    EXPECT_GT(n_prompt, 150) << path;
    // A client that does not ask gets no progress.
    Json quiet = body;
    quiet.erase("return_progress");
    quiet.erase("timings_per_token");
    for (const Json& event : stream(path, quiet.dump())) {
      EXPECT_FALSE(event.is_object() && event.contains("prompt_progress")) << path;
    }
  }
}

TEST_F(Server, ShowsLifeWhileNothingComes) {
  server::ServiceOptions options;
  options.n_parallel = 1;
  options.ping_seconds = 0.05;
  start(std::move(options), kServerContext);
  HttpClient first = client(), second = client();
  const auto send = [](HttpClient& who, const std::string& body) {
    who.send(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  // The first request computes for long and reports nothing before its end.
  send(first, R"({"prompt":"a","max_tokens":-1,"ignore_eos":true})");
  wait_for("answers_running", "1");
  send(second, R"({"prompt":"a","stream":true})");
  EXPECT_NE(second.read_until(": still here").find(": still here"), std::string::npos);
}

}  // namespace
}  // namespace troika
