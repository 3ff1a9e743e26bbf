#include "server/reading/conversation.h"

#include <gtest/gtest.h>

#include "server/anthropic/read_messages.h"
#include "server/openai/read_responses.h"

namespace troika::server {
namespace {

using ReadTools = Conversation (*)(Fields& fields);

// Returns the tool as a template is given it.
std::string shown_by(ReadTools read, const std::string& tool) {
  const Json body = Json::parse(R"({"messages":[{"role":"user","content":"a"}],"input":"a",)"
                                R"("tools":[)" +
                                tool + "]}");
  Fields fields(body);
  return read(fields).tools_json()[0].dump();
}

// Templates write tools out as JSON, and models were trained on tools as clients write them.
TEST(Conversation, ShowsToolsAsTheClientWritesThem) {
  const std::string function =
      R"({"name":"f","parameters":{"properties":{"a":{"type":"string"}},"type":["object","null"]},)"
      R"("strict":true})";
  const std::string tool = R"({"function":)" + function + R"(,"type":"function"})";
  EXPECT_EQ(shown_by(read_conversation, tool), tool);
  const std::string usual = R"({"type":"function","function":)" + function + "}";
  EXPECT_EQ(shown_by(read_responses, R"({"type":"function",)" + function.substr(1)), usual);
  EXPECT_EQ(shown_by(read_messages, R"({"input_schema":{"required":[],"type":"object"},"name":"f",)"
                                    R"("cache_control":{},"strict":true})"),
            R"({"type":"function","function":{"name":"f","parameters":)"
            R"({"required":[],"type":"object"}}})");
  // Templates read the parameters' fields.
  const std::string none = R"({"name":"f","parameters":{"type":"object","properties":{}}})";
  for (const char* const given :
       {R"({"name":"f"})", R"({"name":"f","description":null,"parameters":null})"}) {
    EXPECT_EQ(shown_by(read_conversation, R"({"function":)" + std::string(given) + "}"),
              R"({"function":)" + none + R"(,"type":"function"})");
  }
}

TEST(Conversation, TakesSchemasOfArgumentsForThoseOfObjects) {
  const auto schema_of = [](const char* given) {
    return arguments_schema(Json::parse(given), "parameters").dump();
  };
  EXPECT_EQ(schema_of("true"), R"({"type":"object"})");
  EXPECT_EQ(schema_of("{}"), R"({"type":"object"})");
  EXPECT_EQ(schema_of(R"({"properties":{"a":{}}})"), R"({"type":"object","properties":{"a":{}}})");
  EXPECT_EQ(schema_of(R"({"type":["null","object"],"required":["a"]})"),
            R"({"type":"object","required":["a"]})");
  for (const char* const refused : {"false", "5", "[]", R"({"type":"string"})",
                                    R"({"type":["array","null"]})", R"({"type":1})"}) {
    EXPECT_THROW(schema_of(refused), Refused) << refused;
  }
}

}  // namespace
}  // namespace troika::server
