#include "server/anthropic/read_messages.h"

#include <gtest/gtest.h>

namespace troika::server {
namespace {

Conversation messages_of(const char* messages) {
  const Json body = {{"messages", Json::parse(messages)}};
  Fields fields(body);
  return read_messages(fields);
}

TEST(ReadMessages, JoinsTurnsOfOneRole) {
  const Conversation users = messages_of(
      R"([{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},)"
      R"({"role":"assistant","content":"On"},{"role":"assistant","content":"ce"}])");
  EXPECT_EQ(users.messages, Json::parse(R"([{"role":"user","content":"a\nb"}])"));
  EXPECT_EQ(users.beginning, "Once");

  const Conversation calls = messages_of(
      R"([{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking",)"
      R"("thinking":"x","signature":""},{"type":"tool_use","id":"1","name":"f","input":{}}]},)"
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"y","signature":""},)"
      R"({"type":"text","text":"b"},{"type":"tool_use","id":"2","name":"g","input":{}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"c"}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"2","content":"d"},)"
      R"({"type":"text","text":"e"}]}])");
  ASSERT_EQ(calls.messages.size(), 5u) << calls.messages;
  const Json& assistant = calls.messages[1];
  EXPECT_EQ(assistant["content"], "b");
  EXPECT_EQ(assistant["reasoning_content"], "xy");
  ASSERT_EQ(assistant["tool_calls"].size(), 2u);
  EXPECT_EQ(assistant["tool_calls"][1]["function"]["name"], "g");
  EXPECT_EQ(calls.messages[2]["role"], "tool");
  EXPECT_EQ(calls.messages[4], Json::parse(R"({"role":"user","content":"e"})"));
  EXPECT_FALSE(assistant.contains("thinking"));  // there is a text between thoughts and calls
}

// Anthropic's library writes all fields that it knows, also those that an answer does not have.
TEST(ReadMessages, TakesAnswersBackAsALibraryWritesThem) {
  const auto with = [](const std::string& more) {
    const std::string call = R"({"type":"tool_use","id":"1","name":"f","input":{},"caller":null)";
    return messages_of((R"([{"role":"user","content":"a"},{"role":"assistant","content":[)" + call +
                        more + R"(}]},{"role":"user","content":"b"}])")
                           .c_str());
  };
  EXPECT_EQ(with(R"(,"toolset_name":null)").messages.size(), 3u);
  EXPECT_THROW(with(R"(,"toolset_name":"x")"), Refused);
}

// Some templates look for thoughts in front of calls under this name.
TEST(ReadMessages, GivesThoughtsInFrontOfCallsBothNames) {
  const Conversation calls = messages_of(
      R"([{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking",)"
      R"("thinking":"x","signature":""},{"type":"tool_use","id":"1","name":"f","input":{}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"c"}]}])");
  ASSERT_EQ(calls.messages.size(), 3u) << calls.messages;
  EXPECT_EQ(calls.messages[1]["reasoning_content"], "x");
  EXPECT_EQ(calls.messages[1]["thinking"], "x");
}

}  // namespace
}  // namespace troika::server
