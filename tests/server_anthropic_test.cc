// Tests what Anthropic's interface promises beyond the text of answers.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/tiny_server.h"

namespace troika {
namespace {

using test_support::Json;

class ServerAnthropic : public test_support::ServerTest {
 protected:
  static std::string ask(const std::string& more) {
    return R"({"messages":[{"role":"user","content":"Hi"}])" + more + "}";
  }
};

TEST_F(ServerAnthropic, ThinksOnlyWhereItIsAskedTo) {
  server::ServiceOptions options;
  options.chat_template = std::string(test_support::kServerTemplate) +
                          "{%- if enable_thinking -%}{{ '<think>' }}{%- endif -%}";
  start(std::move(options));
  const auto count = [&](const char* more) {
    return post("/v1/messages/count_tokens", ask(more))["input_tokens"].get<int>();
  };
  const int n_plain = count("");
  EXPECT_EQ(count(R"(,"thinking":{"type":"disabled"})"), n_plain);
  EXPECT_GT(count(R"(,"thinking":{"type":"enabled","budget_tokens":1024})"), n_plain);
  EXPECT_GT(count(R"(,"thinking":{"type":"adaptive"})"), n_plain);
  post("/v1/messages/count_tokens", ask(R"(,"thinking":{"type":"maybe"})"), 400);
}

TEST_F(ServerAnthropic, HoldsAnswersToTheSchemaOfTheirFormat) {
  start();
  const auto with_config = [](const std::string& config) {
    return ask(R"(,"max_tokens":60,"output_config":)" + config);
  };
  // The model has random weights, so the schema decides.
  const std::string format =
      R"({"effort":"low","format":{"type":"json_schema","schema":{"enum":["left","right"]}}})";
  const std::string text = post("/v1/messages", with_config(format))["content"][0]["text"];
  EXPECT_TRUE(text == "\"left\"" || text == "\"right\"") << text;
  EXPECT_EQ(post("/v1/messages/count_tokens", ask(R"(,"output_config":)" + format)),
            post("/v1/messages/count_tokens", ask("")));
  post("/v1/messages",
       with_config(R"({"effort":"high","task_budget":{"type":"tokens","total":9}})"));
  for (const char* const config :
       {R"({"format":{"type":"json_schema"}})", R"({"format":{"type":"regex","schema":{}}})",
        R"({"format":{"type":"json_schema","schema":{"type":"nothing"}}})", R"({"wish":1})", "1"}) {
    post("/v1/messages", with_config(config), 400);
  }
}

// A call in one piece is an object in the answer, and writing that takes a call of a function for
// each of its levels.
TEST_F(ServerAnthropic, RefusesArgumentsInOnePieceThatTheModelNestsDeeply) {
  const auto call_of = [](size_t n) {
    return "<call>weather({\"city\":" + std::string(n, '[') + std::string(n, ']') + "})</call>";
  };
  server::ServiceOptions options;
  options.forced_texts = {call_of(20), call_of(150), call_of(150)};
  start(std::move(options));
  const std::string tools =
      R"(,"max_tokens":600,"tools":[{"name":"weather","input_schema":{"type":"object"}}])";
  const Json shallow = post("/v1/messages", ask(tools));
  EXPECT_EQ(shallow["content"][0]["input"]["city"].dump(),
            std::string(20, '[') + std::string(20, ']'));
  const Json refused = post("/v1/messages", ask(tools), 500);
  EXPECT_NE(refused["error"]["message"].get<std::string>().find("more than 100"), std::string::npos)
      << refused;
  std::string streamed;
  for (const Json& event : stream("/v1/messages", ask(tools + R"(,"stream":true)"))) {
    if (!event.contains("delta") || !event["delta"].contains("partial_json")) continue;
    streamed += event["delta"]["partial_json"].get<std::string>();
  }
  EXPECT_EQ(streamed, "{\"city\":" + std::string(150, '[') + std::string(150, ']') + "}");
}

TEST_F(ServerAnthropic, KnowsStopStringsByTheirNameThereAlone) {
  start_with_text("one two three");
  const std::string body = R"({"messages":[{"role":"user","content":"a"}],"max_tokens":30,)";
  const Json stopped = post("/v1/messages", body + R"("stop_sequences":["two"]})");
  EXPECT_EQ(stopped["stop_sequence"], "two");
  const Json refused = post("/v1/messages", body + R"("stop":["two"]})", 400);
  EXPECT_NE(refused["error"]["message"].get<std::string>().find("stop_sequences"),
            std::string::npos)
      << refused;
}

TEST_F(ServerAnthropic, ShowsModelsInItsOwnForm) {
  start();
  const std::string version = "Anthropic-Version: 2023-06-01\r\n";
  const Json list = Json::parse(client().get("/v1/models?limit=20", version).body);
  EXPECT_EQ(list["has_more"], false);
  EXPECT_EQ(list["first_id"], "tiny");
  EXPECT_EQ(list["last_id"], "tiny");
  const Json& model = list["data"][0];
  EXPECT_EQ(model["type"], "model");
  EXPECT_EQ(model["id"], "tiny");
  EXPECT_EQ(model["display_name"], "tiny");
  EXPECT_EQ(model["lifecycle"], "active");
  EXPECT_EQ(model["created_at"].get<std::string>().size(),
            std::string("2026-01-01T00:00:00Z").size());
  EXPECT_EQ(Json::parse(client().get("/v1/models/tiny", version).body), model);
}

}  // namespace
}  // namespace troika
