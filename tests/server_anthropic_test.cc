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

}  // namespace
}  // namespace troika
