// Tests what clients of llama.cpp's server ask for beside its requests.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>

#include "tests/support/tiny_server.h"

namespace troika {
namespace {

using test_support::HttpAnswer;
using test_support::Json;

class ServerForLlamaCpp : public test_support::ServerTest {};

TEST_F(ServerForLlamaCpp, ShowsThePromptOfAChatOnDemand) {
  start();
  const std::string path = "/v1/chat/completions";
  EXPECT_FALSE(post(path, chat("")).contains("__verbose"));
  const Json shown = post(path, chat(R"(,"verbose":true,"seed":5)"))["__verbose"];
  const Json prompt = post("/apply-template", R"({"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(shown["prompt"], prompt["prompt"]);
  EXPECT_EQ(shown["generation_settings"]["seed"], 5);
  int n_shown = 0;
  for (const Json& event : stream(path, chat(R"(,"verbose":true,"stream":true,"n":2)"))) {
    if (!event.is_object() || !event.contains("__verbose")) continue;
    EXPECT_FALSE(event["choices"][0]["finish_reason"].is_null());
    EXPECT_EQ(event["__verbose"]["prompt"], prompt["prompt"]);
    ++n_shown;
  }
  EXPECT_EQ(n_shown, 2);
  server::ServiceOptions options;
  options.shows_prompts = true;
  start_again(options);
  EXPECT_TRUE(post(path, chat("")).contains("__verbose"));
  EXPECT_FALSE(post(path, chat(R"(,"verbose":false)")).contains("__verbose"));
}

// Top-k leaves two tokens. The server shows the chances with which one of them was chosen.
TEST_F(ServerForLlamaCpp, TellsHowLikelyTokensWereWhereTheyWereChosen) {
  start();
  const std::string asked =
      R"({"prompt":"Once","n_predict":12,"n_probs":5,"top_k":2,"top_p":1,"min_p":0,"seed":3,)"
      R"("temperature":0.7,"ignore_eos":true,"post_sampling_probs":)";
  const Json chosen = post("/completion", asked + "true}");
  const Json model = post("/completion", asked + "false}");
  EXPECT_EQ(chosen["content"], model["content"]);
  EXPECT_TRUE(chosen["generation_settings"]["post_sampling_probs"]);
  EXPECT_EQ(chosen["generation_settings"]["temperature"], 0.7);
  const Json& tokens = chosen["completion_probabilities"];
  ASSERT_EQ(tokens.size(), 12u);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Json& top = tokens[i]["top_probs"];
    const Json& before = model["completion_probabilities"][i]["top_logprobs"];
    ASSERT_EQ(top.size(), 2u);
    const double first = top[0]["prob"], second = top[1]["prob"];
    EXPECT_NEAR(first + second, 1.0, 1e-5);
    const double difference =
        before[1]["logprob"].get<double>() - before[0]["logprob"].get<double>();
    EXPECT_NEAR(std::log(second / first), difference / 0.7, 1e-3);
    EXPECT_EQ(top[0]["id"], before[0]["id"]);
    EXPECT_TRUE(tokens[i]["id"] == top[0]["id"] || tokens[i]["id"] == top[1]["id"]);
    EXPECT_FALSE(tokens[i].contains("logprob"));
  }
  const Json sure = post("/completion", R"({"prompt":"Once","n_predict":2,"n_probs":3,)"
                                        R"("temperature":0,"post_sampling_probs":true})");
  EXPECT_EQ(sure["completion_probabilities"][0]["prob"], 1.0);
  EXPECT_EQ(sure["completion_probabilities"][0]["top_probs"].size(), 1u);
}

// Names of fields stay until the answer ends, so that they may not be long.
TEST_F(ServerForLlamaCpp, RefusesLongNamesOfFields) {
  start();
  const auto asked = [](const std::string& name) {
    return R"({"prompt":"a","n_predict":1,"response_fields":["content",")" + name + R"("]})";
  };
  EXPECT_TRUE(post("/completion", asked(std::string(4000, 'x'))).contains("content"));
  const Json refusal = post("/completion", asked(std::string(4096, 'x')), 400);
  EXPECT_NE(refusal.dump().find("4096 bytes"), std::string::npos);
}

// Given texts come one by one, so that a test of a client has a call and then an answer.
TEST_F(ServerForLlamaCpp, AnswersWithGivenTextsInTurn) {
  server::ServiceOptions options;
  options.forced_texts = {"one", "two"};
  start(options);
  for (const char* const text : {"one", "two", "one"}) {
    EXPECT_EQ(post("/completion", R"({"prompt":"a"})")["content"], text);
  }
}

TEST_F(ServerForLlamaCpp, TellsBothNumbersOfAPromptThatIsTooLong) {
  start();
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "word ";
  const Json messages = Json::array({{{"role", "user"}, {"content", text}}});
  const Json error =
      post("/v1/chat/completions", Json{{"messages", messages}}.dump(), 400)["error"];
  EXPECT_EQ(error["type"], "exceed_context_size_error");
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_GT(error["n_prompt_tokens"], 1024);
  EXPECT_EQ(error["n_ctx"], 1024);
  // What is too long in any case is refused by its bytes: a word without end takes long to encode.
  for (const char* const path : {"/v1/chat/completions", "/v1/completions", "/completion"}) {
    Json body = {{"prompt", std::string(1'000'000, 'a')}};
    if (std::string_view(path).find("chat") != std::string_view::npos) {
      const Json message = {{"role", "user"}, {"content", std::string(1'000'000, 'a')}};
      body = {{"messages", Json::array({message})}};
    }
    const Json least = post(path, body.dump(), 400)["error"];
    EXPECT_NE(least["message"].get<std::string>().find("has at least"), std::string::npos) << path;
    EXPECT_EQ(least["code"], "context_length_exceeded") << path;
    EXPECT_EQ(least["n_ctx"], 1024) << path;
  }
  // Clients of Anthropic know only its kinds of errors.
  const Json other =
      post("/v1/messages", Json{{"max_tokens", 1}, {"messages", messages}}.dump(), 400)["error"];
  EXPECT_EQ(other["type"], "invalid_request_error");
  EXPECT_FALSE(other.contains("n_ctx"));
}

// A text whose tokens nobody computes with is only told, so it may not be as long as a request.
TEST_F(ServerForLlamaCpp, CountsNoTextThatTakesLong) {
  start();
  const std::string text(5'000'000, 'a');
  const Json message = {{"role", "user"}, {"content", text}};
  const Json messages = Json::array({message});
  for (const auto& [path, body] :
       {std::pair("/tokenize", Json{{"content", text}}),
        std::pair("/v1/chat/completions/input_tokens", Json{{"messages", messages}}),
        std::pair("/v1/messages/count_tokens", Json{{"messages", messages}})}) {
    const Json error = post(path, body.dump(), 400)["error"];
    EXPECT_NE(error["message"].get<std::string>().find("Send it in parts"), std::string::npos)
        << path << error;
  }
}

TEST_F(ServerForLlamaCpp, LetsNothingFollowTheEndOfAGrammar) {
  start();
  const Json error =
      post("/v1/completions",
           R"({"prompt":"a","json_schema":{"type":"boolean"},"ignore_eos":true,"max_tokens":50})",
           400)["error"];
  EXPECT_NE(error["message"].get<std::string>().find("ignore_eos"), std::string::npos) << error;
  // Biases that leave nothing of a grammar are the request's fault, too.
  const Json none = post("/v1/completions",
                         R"({"prompt":"a","grammar":"root ::= \"b\"","max_tokens":5,)"
                         R"("logit_bias":{"b":false}})",
                         400)["error"];
  EXPECT_NE(none["message"].get<std::string>().find("No token may follow"), std::string::npos)
      << none;
}

// The last token ends the answer and has no text.
TEST_F(ServerForLlamaCpp, StreamsTokensWithoutTextToo) {
  start_with_text("one two");
  const Json whole = post("/completion", R"({"prompt":"a","return_tokens":true})");
  Json tokens = Json::array();
  for (const Json& event : stream("/completion", R"({"prompt":"a","stream":true})")) {
    if (!event.is_object()) continue;
    for (const Json& token : event["tokens"]) tokens.push_back(token);
  }
  EXPECT_GT(tokens.size(), 1u);
  EXPECT_EQ(tokens, whole["tokens"]);
}

TEST_F(ServerForLlamaCpp, HasItsFiguresSwitchedOff) {
  server::ServiceOptions options;
  options.shows_metrics = options.shows_slots = false;
  start(options);
  for (const char* const path : {"/metrics", "/slots"}) {
    const HttpAnswer answer = client().get(path);
    EXPECT_EQ(answer.status, 501);
    EXPECT_EQ(Json::parse(answer.body)["error"]["type"], "not_supported_error");
  }
  EXPECT_EQ(client().get("/health").status, 200);
}

TEST_F(ServerForLlamaCpp, SaysWhatItIsByTheirNames) {
  server::ServiceOptions options;
  options.sampler.seed = 7;
  options.has_seed = true;
  options.n_parallel = 3;
  start(options);
  const Json props = Json::parse(client().get("/props").body);
  EXPECT_TRUE(props["model_path"].get<std::string>().ends_with("tiny.gguf"));
  EXPECT_EQ(props["total_slots"], 3);
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 1024);
  EXPECT_EQ(props["default_generation_settings"]["params"]["seed"], 7);
  post("/completion", R"({"prompt":"a","n_predict":3,"ignore_eos":true})");
  EXPECT_EQ(metric("answers_total"), "1");
  const std::string text = client().get("/metrics").body;
  EXPECT_NE(text.find("\nllamacpp:n_busy_slots_per_decode 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nllamacpp:spec_decode_num_drafts_total 0\n"), std::string::npos);
}

}  // namespace
}  // namespace troika
