// Checks that schemas of strangers cost what they are allowed to cost, and mean what the standard
// says, however they are made.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "grammar/grammar_test_support.h"

namespace troika::grammar {
namespace {

// Returns n times the same text, as the parts of a list.
std::string listed(const std::string& text, int n) {
  std::string list = text;
  for (int i = 1; i < n; ++i) list += "," + text;
  return list;
}

// Returns so many texts of JSON, all different, as the parts of a list.
std::string different_texts(int n) {
  std::string list = "\"0\"";
  for (int i = 1; i < n; ++i) list += ",\"" + std::to_string(i) + "\"";
  return list;
}

CompileOptions with_steps(uint64_t n_steps) {
  CompileOptions options;
  options.limits.n_compile_steps = n_steps;
  return options;
}

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
  const std::string error =
      error_of(R"({"type":"object","minProperties":562949953421312,"required":[)" +
                   different_texts((1 << 15) - 1) + "]}",
               Format::kJsonSchema);
  EXPECT_NE(error.find("so many counted properties"), std::string::npos) << error;
}

// What each of many schemas says is asked for each key and each element, and each question is work.
TEST(UntrustedSchemas, WhatManySchemasSayOfManyPartsIsCounted) {
  constexpr int kMany = 2000;
  const auto object = [](int n_schemas) {
    return R"({"type":"object","required":[)" + different_texts(200) + R"(],"allOf":[)" +
           listed(R"({"additionalProperties":{}})", n_schemas) + "]}";
  };
  const auto array = [](int n_schemas) {
    return R"({"type":"array","prefixItems":[)" + listed("true", 200) + R"(],"allOf":[)" +
           listed(R"({"items":true})", n_schemas) + "]}";
  };
  const CompileOptions options = with_steps(150'000);
  EXPECT_NE(compiled(object(2), Format::kJsonSchema, options), nullptr);
  EXPECT_THROW(compiled(object(kMany), Format::kJsonSchema, options), TooMuchWork);
  EXPECT_NE(compiled(array(2), Format::kJsonSchema, options), nullptr);
  EXPECT_THROW(compiled(array(kMany), Format::kJsonSchema, options), TooMuchWork);
}

// A schema with many required keys is compared with many that declare none.
TEST(UntrustedSchemas, ComparisonsWithSchemasWithoutKeysAreCounted) {
  const auto schema = [](int n_ways) {
    return R"({"allOf":[{"type":"object","properties":{"z":false},"required":[)" +
           different_texts(3000) + R"(]}],"anyOf":[)" +
           listed(R"({"type":"object","required":["z"]})", n_ways) + "]}";
  };
  const CompileOptions options = with_steps(100'000);
  try {
    compiled(schema(2), Format::kJsonSchema, options);
    FAIL() << "no object has the key and has it not";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("No text fits"), std::string::npos) << error.what();
  }
  EXPECT_THROW(compiled(schema(1000), Format::kJsonSchema, options), TooMuchWork);
}

}  // namespace
}  // namespace troika::grammar
