#include "server/conversation.h"

#include <gtest/gtest.h>

namespace troika::server {
namespace {

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
