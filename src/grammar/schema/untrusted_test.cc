// Checks that schemas of strangers cost what they are allowed to cost, and mean what the standard
// says, however they are made.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "grammar/grammar_test_support.h"

namespace troika::grammar {
namespace {

// Negated schemas have keywords of their own, and a user's unknown keyword is a remark.
TEST(UntrustedSchemas, CannotUseTheReadersOwnKeywords) {
  for (const char* const schema :
       {R"({"$wanted":{}})", R"({"anyOf":[{"$wanted":{"names":[]}},{}]})", R"({"$notValues":[1]})",
        R"({"$notMultipleOf":1})", R"({"$notPattern":"1"})", R"({"$notFormat":"date"})",
        R"({"$ref":"#/mine","mine":{"$notValues":[1],"$wanted":{}}})"}) {
    EXPECT_TRUE(accepts(compiled(schema, Format::kJsonSchema), "1")) << schema;
  }
  EXPECT_TRUE(accepts(compiled(R"({"$notPattern":"a","$notFormat":"date"})", Format::kJsonSchema),
                      "\"a\""));
  const auto either = compiled(R"({"oneOf":[{"const":1},{"type":"integer","$notValues":[1]}]})",
                               Format::kJsonSchema);
  EXPECT_TRUE(accepts(either, "2"));
  EXPECT_FALSE(accepts(either, "1"));
  const std::string error = error_of(R"({"type":"$fraction"})", Format::kJsonSchema);
  EXPECT_NE(error.find("there is no type \"$fraction\""), std::string::npos) << error;
  EXPECT_NE(error_of("{\"\xffwanted\":{}}", Format::kJsonSchema).find("no JSON"),
            std::string::npos);
  // An error names the user's keyword.
  const std::string regex = error_of(R"x({"not":{"pattern":"a(?=b)"}})x", Format::kJsonSchema);
  EXPECT_NE(regex.find("#/not: in the regular expression"), std::string::npos) << regex;
}

// 2^49 counted members of 2^15 keys are 2^64 states, a number that a word of 64 bits has no room
// for.
TEST(UntrustedSchemas, NumbersOfCountedMembersDoNotOverflow) {
  std::string keys = "\"key\"";
  for (int i = 1; i < (1 << 15) - 1; ++i) keys += ",\"" + std::to_string(i) + "\"";
  const std::string error =
      error_of(R"({"type":"object","minProperties":562949953421312,"required":[)" + keys + "]}",
               Format::kJsonSchema);
  EXPECT_NE(error.find("so many counted properties"), std::string::npos) << error;
}

}  // namespace
}  // namespace troika::grammar
