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
  server::Options options;
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
  post("/v1/messages", with_config(R"({"effort":"high"})"));
  for (const char* const config :
       {R"({"format":{"type":"json_schema"}})", R"({"format":{"type":"regex","schema":{}}})",
        R"({"format":{"type":"json_schema","schema":{"type":"nothing"}}})", R"({"wish":1})", "1"}) {
    post("/v1/messages", with_config(config), 400);
  }
}

}  // namespace
}  // namespace troika
