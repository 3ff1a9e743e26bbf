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

}  // namespace
}  // namespace troika
