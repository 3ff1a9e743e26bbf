#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "grammar/grammar_test_support.h"

namespace troika::grammar {
namespace {

struct SchemaCase {
  const char* schema;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

void check(const std::vector<SchemaCase>& cases) {
  for (const SchemaCase& c : cases) {
    const auto grammar = compiled(c.schema, Format::kJsonSchema);
    for (const std::string& text : c.good) EXPECT_TRUE(accepts(grammar, text)) << c.schema << text;
    for (const std::string& text : c.bad) EXPECT_FALSE(accepts(grammar, text)) << c.schema << text;
  }
}

TEST(JsonSchema, ObjectsHaveKeysInOrder) {
  check(
      {{R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},
              "c":{"type":"boolean"}},"required":["a","c"],"additionalProperties":false})",
        {R"({"a":1,"c":true})", R"({"a":-20,"b":"x\"é\u00e9","c":false})"},
        {R"({"c":true,"a":1})", R"({"a":1})", R"({"a":1,"c":true,"d":1})", R"({"a": 1,"c":true})",
         R"({"a":1,"a":1,"c":true})", R"({"a":01,"c":true})"}},
       {R"({"properties":{"a":{"type":"null"}}})",
        {R"({})", R"({"a":null})", R"({"b":[{}],"ab":1e5})", R"({"a":null,"b":2})", R"([1,"x"])",
         "3"},
        {R"({"a":1})", R"({"b":2,"\u0061":1})"}},
       {R"({"patternProperties":{"^x":{"type":"integer"},"y$":{"minimum":5}},
              "additionalProperties":{"type":"string"},"type":"object"})",
        {R"({"x":1,"by":7,"xy":5,"k":"v"})"},
        {R"({"x":"1"})", R"({"xy":4})", R"({"k":1})"}},
       {R"({"type":"object","minProperties":1,"maxProperties":2,"properties":{"a":true,"b":true}})",
        {R"({"a":1})", R"({"a":1,"b":2})", R"({"z":0})", R"({"b":2,"z":0})"},
        {R"({})", R"({"a":1,"b":2,"c":3})"}},
       {R"({"type":"object","propertyNames":{"maxLength":2},"properties":{"abc":true}})",
        {R"({"ab":1})"},
        {R"({"abc":1})", R"({"abd":1})"}},
       {R"({"type":"object","properties":{"a":true,"b":true},"dependentRequired":{"a":["b"]}})",
        {R"({})", R"({"b":1})", R"({"a":1,"b":1})"},
        {R"({"a":1})"}}});
}

TEST(JsonSchema, ArraysStringsAndValues) {
  check({{R"({"type":"array","items":{"enum":[1,"a",null]},"minItems":1,"maxItems":3})",
          {"[1]", "[1,\"a\",null]"},
          {"[]", "[2]", "[1,1,1,1]", "[1,]", "[1.0]"}},
         {R"({"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false})",
          {"[]", "[\"x\"]", "[\"x\",1]"},
          {"[1]", "[\"x\",1,2]"}},
         {R"({"type":"array","contains":{"const":7},"items":{"type":"integer"}})",
          {"[7]", "[1,7,2]"},
          {"[]", "[1,2]", "[\"7\",7,\"\"]"}},
         {R"({"type":"string","minLength":2,"maxLength":3,"pattern":"^[a-z\"]+$"})",
          {"\"ab\"", "\"a\\\"b\""},
          {"\"a\"", "\"abcd\"", "\"aB\"", "\"a\"b\""}},
         {R"({"type":"string","format":"date"})",
          {"\"2024-02-29\""},
          {"\"2023-02-29\"", "\"2023-13-01\"", "\"x\""}},
         {R"({"const":{"a":[1,"b"],"c":null}})", {R"({"a":[1,"b"],"c":null})"}, {R"({"a":[1]})"}},
         {R"({"const":-0.0})", {"0"}, {"--0", "1", "-", "0.0"}},
         {R"({"enum":["red","green",5],"type":"string"})", {"\"red\""}, {"5", "\"blue\""}}});
}

TEST(JsonSchema, Numbers) {
  check({{R"({"type":"integer","minimum":-3,"maximum":120})",
          {"-3", "0", "-0", "9", "99", "120"},
          {"-4", "121", "1000", "5.5", "05", "1e1", "5.0"}},
         {R"({"type":"number","exclusiveMinimum":0,"maximum":1.25})",
          {"0.001", "1", "1.25", "1.250", "1.1999"},
          {"0", "-1", "0.0", "1.251", "1.3", "2", "10"}},
         {R"({"type":"number","minimum":-1.5,"exclusiveMaximum":-0.25})",
          {"-1.5", "-0.26", "-1", "-0.3"},
          {"-0.25", "-1.51", "0", "-2", "-0.2"}},
         {R"({"type":"integer","multipleOf":7})",
          {"0", "7", "-14", "49", "700"},
          {"1", "8", "-15", "7.5", "7.0"}},
         {R"({"type":"number","multipleOf":0.05})",
          {"0.05", "1", "2.35", "10.5", "0.10", "3.0500"},
          {"0.01", "2.33", "10.55001"}},
         {R"({"type":"number"})", {"0", "-1.5e+10", "12E3"}, {"01", ".5", "1.", "+1"}}});
}

// Checks every whole number and every tenth from -35 to 35 against random bounds.
TEST(JsonSchema, BoundsAgreeWithArithmetic) {
  uint32_t random = 9;
  for (int i = 0; i < 60; ++i) {
    const auto bound = [&] { return static_cast<int>(next_random(&random, 601)) - 300; };
    const int least = bound(), most = bound();
    const bool is_open = next_random(&random, 2) == 0;
    const auto written = [](int tenths) {
      std::string text = tenths < 0 ? "-" : "";
      text += std::to_string(std::abs(tenths) / 10);
      return text + "." + std::to_string(std::abs(tenths) % 10);
    };
    const std::string schema = std::string("{\"type\":\"number\",\"") +
                               (is_open ? "exclusiveMinimum" : "minimum") + "\":" + written(least) +
                               ",\"maximum\":" + written(most) + "}";
    std::shared_ptr<Grammar> grammar;
    const std::string error = error_of(schema, Format::kJsonSchema);
    const bool is_empty = least > most || (least == most && is_open);
    ASSERT_EQ(error.empty(), !is_empty) << schema << error;
    if (is_empty) continue;
    grammar = compiled(schema, Format::kJsonSchema);
    for (int tenths = -350; tenths <= 350; ++tenths) {
      const bool is_in = (is_open ? tenths > least : tenths >= least) && tenths <= most;
      Matcher matcher(grammar);
      bool is_accepted = true;
      for (const char c : written(tenths)) {
        is_accepted = is_accepted && matcher.advance(3 + static_cast<uint8_t>(c));
      }
      ASSERT_EQ(is_accepted && matcher.may_end(), is_in) << schema << written(tenths);
    }
  }
}

TEST(JsonSchema, CombinationsAndReferences) {
  check({{R"({"$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},
              "next":{"$ref":"#/$defs/node"}},"required":["v"],"additionalProperties":false}},
              "$ref":"#/$defs/node"})",
          {R"({"v":1})", R"({"v":1,"next":{"v":2,"next":{"v":3}}})"},
          {R"({"next":{"v":2}})", R"({"v":1,"next":{}})"}},
         {R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},
              {"properties":{"a":{"minimum":10},"b":{"const":1}}}],"type":"object"})",
          {R"({"a":10})", R"({"a":11,"b":1})"},
          {R"({"a":9})", R"({"b":1})", R"({"a":10,"b":2})"}},
         {R"({"oneOf":[{"type":"integer"},{"minimum":2,"type":"number"}]})",
          {"1", "2.5"},
          {"3", "1.5"}},
         {R"({"type":"object","properties":{"k":{"enum":["a","b"]},"v":true},"required":["k","v"],
              "if":{"properties":{"k":{"const":"a"}}},
              "then":{"properties":{"v":{"type":"integer"}}},
              "else":{"properties":{"v":{"type":"string"}}}})",
          {R"({"k":"a","v":1})", R"({"k":"b","v":"x"})"},
          {R"({"k":"a","v":"x"})", R"({"k":"b","v":1})"}},
         {R"({"type":"string","not":{"enum":["a","b"]}})",
          {"\"c\"", "\"ab\""},
          {"\"a\"", "\"\\u0062\""}}});
}

// What depends on a key is nothing that an array has looked at.
TEST(JsonSchema, DependenciesAreOfObjects) {
  check({{R"({"dependentSchemas":{"b":{"prefixItems":[true]}},"unevaluatedItems":false})",
          {"[]", "3", R"({"b":1})"},
          {"[0]"}},
         {R"({"dependentSchemas":{"b":{"unevaluatedItems":true}},
              "unevaluatedItems":{"type":"string"}})",
          {R"(["x"])", R"({"b":1})"},
          {"[0]"}}});
}

// Descriptions of interfaces in OpenAPI 3.0 have a keyword of their own for it.
TEST(JsonSchema, NullableIsAnotherType) {
  check({{R"({"type":"string","nullable":true})", {"\"a\"", "null"}, {"1"}},
         {R"({"type":"string","nullable":false})", {"\"a\""}, {"null"}},
         {R"({"nullable":true,"minimum":3})", {"null", "3", "\"a\""}, {"2"}},
         {R"({"type":["integer","null","string"],"not":{"type":"integer","nullable":true}})",
          {"\"a\""},
          {"1", "null"}}});
  EXPECT_NE(error_of(R"({"type":"string","nullable":1})", Format::kJsonSchema), "");
}

TEST(JsonSchema, DependenciesOfOlderDrafts) {
  check({{R"({"type":"object","properties":{"a":true,"b":true,"c":{"type":"integer"}},
              "additionalProperties":false,
              "dependencies":{"a":["b"],"b":{"properties":{"c":{"minimum":5}},"required":["c"]}}})",
          {R"({})", R"({"c":1})", R"({"b":1,"c":5})", R"({"a":1,"b":1,"c":6})"},
          {R"({"a":1})", R"({"a":1,"c":5})", R"({"b":1})", R"({"b":1,"c":4})",
           R"({"a":1,"b":1,"c":4})"}},
         {R"({"dependencies":{"a":false}})", {"3", R"({"b":1})"}, {R"({"a":1})"}}});
  EXPECT_NE(error_of(R"({"dependencies":{"a":"b"}})", Format::kJsonSchema), "");
  EXPECT_NE(error_of(R"({"dependentRequired":{"a":true}})", Format::kJsonSchema), "");
  EXPECT_NE(error_of(R"({"dependentSchemas":{"a":["b"]}})", Format::kJsonSchema), "");
}

TEST(JsonSchema, OneOfTellsObjectsApartByTheirOtherMembers) {
  check({{R"({"oneOf":[{"type":"object","properties":{"a":{"type":"integer"}},
              "additionalProperties":false},{"type":"object","properties":{"b":{"type":"integer"}},
              "additionalProperties":false}]})",
          {R"({"a":1})", R"({"b":-2})"},
          {R"({})", R"({"a":1,"b":2})", R"({"c":1})", "1"}},
         {R"({"oneOf":[{"properties":{"a":{"type":"integer"}}},
              {"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"null"}}]})",
          {R"({"a":1,"b":2})", R"({"b":null,"c":[]})", R"({"c":{},"b":null,"d":0})"},
          {R"({"a":1})", R"({"b":null})", R"({})", R"({"a":"x","b":2})"}}});
}

TEST(JsonSchema, NegationsOfWhatObjectsAndArraysHold) {
  check({{R"({"type":"object","not":{"additionalProperties":{"type":"integer"},
              "patternProperties":{"^x":true}}})",
          {R"({"a":"1"})", R"({"x":1,"a":1,"b":[]})", R"({"a":null,"b":null})"},
          {R"({})", R"({"a":1})", R"({"x":"y"})", R"({"xa":"y","b":2})"}},
         {R"({"type":"object","not":{"patternProperties":{"^x":{"type":"integer"}}}})",
          {R"({"x":"1"})", R"({"a":1,"x2":null,"x3":4})"},
          {R"({})", R"({"x":1})", R"({"a":"1","x":2})"}},
         {R"({"type":"object","minProperties":1,"not":{"propertyNames":{"maxLength":2}}})",
          {R"({"abc":1})", R"({"a":1,"abc":2})"},
          {R"({})", R"({"ab":1})", R"({"a":1,"b":2})"}},
         {R"({"type":"object","not":{"propertyNames":{"maxLength":2}},"allOf":[
              {"not":{"additionalProperties":{"type":"null"}}}]})",
          {R"({"abc":1})", R"({"a":1,"abc":null})", R"({"abc":null,"a":1})"},
          {R"({})", R"({"abc":null})", R"({"a":1,"b":2})"}},
         {R"({"type":"array","not":{"items":{"type":"integer"}}})",
          {"[\"a\"]", "[1,null,2]"},
          {"[]", "[1]", "[1,2]"}},
         {R"({"type":"array","not":{"contains":{"type":"null"}}})",
          {"[]", "[2]", "[\"1\",0]"},
          {"[null]", "[2,null]"}},
         {R"({"type":"integer","not":{"oneOf":[{"minimum":3},{"maximum":5}]}})",
          {"3", "5"},
          {"2", "6"}},
         {R"({"type":"object","not":{"dependencies":{"a":["b"],"c":{"required":["d"]}}}})",
          {R"({"a":1})", R"({"c":1})", R"({"a":1,"c":1})"},
          {R"({})", R"({"b":1})", R"({"a":1,"b":1})", R"({"c":1,"d":1})"}},
         {R"({"type":"string","maxLength":10,"not":{"format":"date"}})",
          {"\"soon\"", "\"2023-02-29\""},
          {"\"2024-02-29\""}},
         {R"({"$defs":{"n":{"type":"null"}},"not":{"$ref":"#/$defs/n","title":"t","x-mine":7}})",
          {"1", "\"\""},
          {"null"}}});
}

// A member cannot be asked for and counted with others at once.
TEST(JsonSchema, MembersAreNotCountedWhereOneIsAskedFor) {
  const char* const schema = R"({"type":"object","minProperties":2,
      "not":{"additionalProperties":{"type":"integer"}}})";
  EXPECT_NE(error_of(schema, Format::kJsonSchema).find("conditions for members"),
            std::string::npos);
}

TEST(JsonSchema, FormatsOfAddresses) {
  check({{R"({"type":"string","format":"uri-reference"})",
          {"\"\"", "\"a/b?c#d\"", "\"//host/x\"", "\"http://a.b/c%20d\"", "\"#x\"", "\"./a:b\""},
          {"\"a b\"", "\"1a:b\"", "\"%zz\"", "\"é\"", "\"a#b#c\""}},
         {R"({"type":"string","format":"iri-reference"})", {"\"/é\"", "\"\""}, {"\"a b\""}},
         {R"({"type":"string","format":"iri"})", {"\"http://é/😀\""}, {"\"/é\"", "\"http: x\""}},
         {R"({"type":"string","format":"relative-json-pointer"})",
          {"\"0\"", "\"12/a~0/b\"", "\"1#\""},
          {"\"/a\"", "\"01\"", "\"1#/a\"", "\"-1\""}}});
}

TEST(JsonSchema, AddressesHaveHostsAndPorts) {
  check({{R"({"type":"string","format":"uri"})",
          {"\"s:\"", "\"http://u:p@[::1]:80/a//b?c/?#d\"", "\"s:/\"", "\"s://[v1.a:b]\"",
           "\"mailto:a@b.c\"", "\"urn:a:b\"", "\"s:///a\""},
          {"\"http://a:b/\"", "\"http://[::1\"", "\"http://[1]/\"", "\"s:a[b]\"", "\"//a\"",
           "\"http://a@b@c/\"", "\"1s:a\""}},
         {R"({"type":"string","format":"ipv6"})",
          {"\"::\"", "\"1::\"", "\"::ffff:10.0.0.1\"", "\"1:2:3:4:5:6:7.8.9.10\"",
           "\"1:2:3:4:5:6:7::\"", "\"::2:3:4:5:6:7:8\"", "\"1:2:3:4:5:6:7:8\""},
          {"\"1:2:3:4:5:6:7:8:9\"", "\"1::2::3\"", "\"::1.2.3\"", "\"::1.2.3.256\"", "\":\"",
           "\"1:2:3:4:5:6:7:1.2.3.4\"", "\"12345::\"", "\"1:2:3:4::5:6:7:8:9\""}}});
}

// Two labels of 63 letters with a dot behind each, and so many letters.
std::string long_name(int n_more) {
  const std::string label(63, 'a');
  return "\"" + label + "." + label + "." + label + "." + std::string(n_more, 'b') + "\"";
}

TEST(JsonSchema, NamesOfHostsHaveALength) {
  check({{R"({"type":"string","format":"hostname"})",
          {long_name(61).c_str(), "\"a-1.b\"", "\"a--b\"", "\"ab-c\"", "\"a-b-c\"", "\"abc\""},
          {long_name(62).c_str(), "\"a..b\"", "\"-a\"", "\"a-\"", "\"ab--c\"", "\"\""}},
         {R"({"type":"string","maxLength":40,"not":{"format":"hostname"}})",
          {"\"a_b\""},
          {"\"xn--4gbwdl.xn--wgbh1c\"", "\"a\""}}});
}

// An answer that must not have a format has none of its rarer forms either.
TEST(JsonSchema, NoFormOfAFormatIsLeftWhereItIsForbidden) {
  check({{R"({"type":"string","maxLength":40,"not":{"format":"time"}})",
          {"\"noon\"", "\"12:00\"", "\"24:00:00Z\""},
          {"\"12:00:00z\"", "\"23:59:60Z\"", "\"00:29:60.5+00:30\""}},
         {R"({"type":"string","maxLength":40,"not":{"format":"date-time"}})",
          {"\"2024-02-30T00:00:00Z\""},
          {"\"2024-02-29t00:00:00z\"", "\"1998-12-31T23:59:60Z\""}},
         {R"({"type":"string","maxLength":40,"not":{"format":"duration"}})",
          {"\"P\"", "\"1D\""},
          {"\"P1D\"", "\"p1dt2h\""}},
         {R"({"type":"string","maxLength":40,"not":{"format":"email"}})",
          {"\"a\""},
          {"\"\\\"a b\\\"@c.d\"", "\"a@[127.0.0.1]\"", "\"a@b\""}},
         {R"({"type":"string","oneOf":[{"format":"relative-json-pointer"},{"maxLength":3}]})",
          {"\"0/abc\"", "\"a\""},
          {"\"0\"", "\"0+1\""}}});
}

TEST(JsonSchema, WhatIsNotSupportedIsRefusedWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"properties":{"a":{"not":{"uniqueItems":true}}}})",
       "#/properties/a/not: 'not' of 'uniqueItems'"},
      {R"({"items":{"uniqueItems":true}})", "#/items/uniqueItems"},
      {R"({"$ref":"other.json"})", "#/$ref: 'other.json' is in another document"},
      {R"({"$ref":"#/$defs/x"})", "there is no '#/$defs/x'"},
      {R"({"oneOf":[{"uniqueItems":true},{"minItems":3}]})",
       "#/oneOf: a value could fit both /0 and /1"},
      {R"x({"pattern":"a(?=b)"})x", "#/pattern: in the regular expression: looking"},
      {R"({"type":"strin"})", "#/type: there is no type \"strin\""},
      {R"({"format":"uri-template"})", "#/format: 'uri-template' is not supported"},
      {R"({"properties":{"a~/b":7}})", "#/properties/a~0~1b: a schema is expected"},
      {R"({"$dynamicRef":"#x"})", "#/$dynamicRef"},
      {R"({"multipleOf":123456,"minimum":1})", "#/multipleOf"},
      {R"({"minLength":-1})", "#/minLength"},
      {R"({"type":"object","required":["a"],"properties":{"a":false}})", "No text fits"},
      {R"({"anyOf":[{"$ref":"#"},{"type":"integer"}]})", "schema's #: its choices lead back"},
      {"{", "no JSON"},
      {"7", "a schema is expected"},
      {R"({"$schema":"http://example.com/mine"})", "#/$schema: this dialect"}};
  for (const auto& [schema, part] : cases) {
    const std::string error = error_of(schema, Format::kJsonSchema);
    EXPECT_NE(error.find(part), std::string::npos) << schema << ": " << error;
  }
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += "{\"items\":";
  EXPECT_NE(error_of(deep, Format::kJsonSchema), "");
}

TEST(JsonSchema, NamesOfKeysWithVeryManyChoicesAreRefused) {
  std::string choices;
  for (int i = 0; i < 30; ++i) {
    const std::string n = std::to_string(i);
    choices += (i > 0 ? "," : "") + (R"({"anyOf":[{"pattern":"a)" + n + R"("},{"pattern":"b)" + n) +
               R"("}]})";
  }
  const std::string schema = R"({"type":"object","propertyNames":{"allOf":[)" + choices + "]}}";
  CompileOptions options;
  options.limits.n_nested = 20;
  try {
    compiled(schema, Format::kJsonSchema, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("names of keys leave too many"), std::string::npos);
  }
}

// Returns a schema with a choice that leads through so many references to an integer.
std::string chain_of_references(int n) {
  std::string chain;
  for (int i = 1; i <= n; ++i) {
    chain += R"({"$ref":"#/$defs/x/allOf/)" + std::to_string(i) + R"("},)";
  }
  return R"({"anyOf":[{"$ref":"#/$defs/x/allOf/0"}],"$defs":{"x":{"allOf":[)" + chain +
         R"({"type":"integer"}]}}})";
}

TEST(JsonSchema, AnyNumberOfReferencesStandBehindEachOther) {
  constexpr int kReferences = 50'000;  // more than a stack has room for
  const auto grammar = compiled(chain_of_references(kReferences), Format::kJsonSchema);
  EXPECT_TRUE(accepts(grammar, "12"));
  EXPECT_FALSE(accepts(grammar, "\"a\""));
  // Following them is work, which is limited.
  CompileOptions options;
  options.limits.n_compile_steps = kReferences / 2;
  EXPECT_THROW(compiled(chain_of_references(kReferences), Format::kJsonSchema, options),
               TooMuchWork);
}

// Seven alternatives that do not exclude each other outright would have to be written in hundreds
// of thousands of combinations.
TEST(JsonSchema, TooManyWaysTogetherAreRefused) {
  std::string ways, required;
  for (int i = 0; i < 7; ++i) {
    const std::string k = std::to_string(i);
    ways += (i > 0 ? "," : "") + std::string(R"({"properties":{"a)") + k +
            R"(":{"type":"string"},"b)" + k + R"(":{"type":"null"},"c)" + k +
            R"(":{"type":"null"}},"required":["a)" + k + R"(","b)" + k + R"("]})";
  }
  CompileOptions few_schemas, few_choices;
  few_schemas.limits.n_schemas = 2000;
  few_choices.limits.n_choices = 1000;
  for (const CompileOptions& options : {few_schemas, few_choices}) {
    try {
      compiled(R"({"type":"object","oneOf":[)" + ways + "]}", Format::kJsonSchema, options);
      FAIL() << "this was read";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("too many ways"), std::string::npos) << error.what();
    }
  }
}

// Comparing is work, too: each value of a list with each of another list, a key with all keys.
TEST(JsonSchema, ComparisonsAreCounted) {
  std::string texts = "\"0\"";
  for (int i = 1; i < 2000; ++i) texts += ",\"" + std::to_string(i) + "\"";
  const std::string same = R"({"enum":[)" + texts + "]}";
  CompileOptions options;
  options.limits.n_compile_steps = 240'000;  // the lists take 2,000 x 2,000 / 16 steps
  EXPECT_TRUE(accepts(compiled(same, Format::kJsonSchema, options), "\"999\""));
  EXPECT_THROW(compiled(R"({"allOf":[)" + same + "," + same + "]}", Format::kJsonSchema, options),
               TooMuchWork);
}

// The types of a schema are those of all its ways, here four at each of 17 depths. They are looked
// up once.
TEST(JsonSchema, LooksAtTypesAreRemembered) {
  const std::string itself = R"({"$ref":"#/$defs/a"})";
  const std::string schema = R"({"oneOf":[)" + itself +
                             R"(,{"type":"null"}],"$defs":{"a":{"anyOf":[)" + itself + "," +
                             itself + "," + itself + "," + itself + "]}}}";
  CompileOptions options;
  options.limits.n_compile_steps = 10'000;
  try {
    compiled(schema, Format::kJsonSchema, options);
    FAIL() << "this was read";
  } catch (const TooMuchWork&) {
    FAIL() << "this takes too many steps";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("could fit both /0 and /1"), std::string::npos)
        << error.what();
  }
}

// None of the members need be there, so each may follow each before it.
TEST(JsonSchema, ObjectsHaveUpTo2000Keys) {
  const auto with_keys = [](int n) {
    std::string keys = R"("k0":true)";
    for (int i = 1; i < n; ++i) keys += ",\"k" + std::to_string(i) + "\":true";
    return R"({"properties":{)" + keys + R"(},"type":"object"})";
  };
  for (const int n : {700, 1400, 2000}) {
    const auto grammar = compiled(with_keys(n), Format::kJsonSchema);
    const std::string last = "\"k" + std::to_string(n - 1) + "\":1";
    EXPECT_TRUE(reads(grammar, "{\"k0\":1,\"k99\":[]," + last + ",\"k\":2}")) << n;
    EXPECT_TRUE(reads(grammar, "{" + last + "}")) << n;
    EXPECT_TRUE(reads(grammar, "{}")) << n;
    EXPECT_FALSE(reads(grammar, "{" + last + ",\"k0\":1}")) << n;
  }
  const std::string error = error_of(with_keys(100'000), Format::kJsonSchema);
  EXPECT_NE(error.find("more than 2000 keys"), std::string::npos) << error;
}

TEST(JsonSchema, RequiredKeysKeepTheirOrderAndComeOnce) {
  check({{R"({"type":"object","required":["b","a","b"],"additionalProperties":{"const":1}})",
          {R"({"b":1,"a":1})", R"({"b":1,"a":1,"c":1})"},
          {R"({"a":1,"b":1})", R"({"b":1,"a":1,"b":1})", R"({"b":1})"}}});
}

TEST(JsonSchema, NamedNumbersWithAnExponentAreNoOthers) {
  check({{R"({"enum":[0.00001,0.0001]})", {"1e-05", "0.0001"}, {"1e-050", "1e-5", "0", "0.00010"}},
         {R"({"const":1234567890123456.5})", {}, {"1.2345678901234565e+150"}}});
}

TEST(JsonSchema, WholeNumbersAreWrittenWithoutAPoint) {
  check({{R"({"type":"integer","enum":[1,-2]})", {"1", "-2"}, {"1.0", "-2.0", "2"}},
         {R"({"enum":[1.0]})", {"1"}, {"1.0", "2"}},
         {R"({"type":"integer"})", {"1", "-20"}, {"1.0", "1.5"}}});
}

// A small model that may go on with digits goes on until the context is full.
TEST(JsonSchema, NumbersEnd) {
  const std::string digits(16, '3'), more(17, '3');
  check({{R"({"type":"integer"})", {digits, "-" + digits}, {more}},
         {R"({"type":"number"})",
          {digits, "-0." + digits, "1." + digits + "e-10"},
          {more, "0." + more, "1e100"}},
         {R"({"const":1.5})", {"1.5"}, {"1.50"}},
         {R"({"type":"integer","minimum":100000000000000000000000})",
          {"100000000000000000000000", "1" + std::string(30, '0')},
          {"1" + std::string(45, '0')}},
         {R"({"type":"number","exclusiveMinimum":0.000000000000000000001})",
          {"0.000000000000000000002", "1"},
          {"0.000000000000000000001", "0." + std::string(45, '1')}}});
}

// Readers with doubles take 0.99999999999999999 for 1.
TEST(JsonSchema, NoTextIsReadAsABoundThatIsOut) {
  const struct {
    const char *bound, *below, *above;  // digits to go on with towards the bound: nines and zeros
  } kCases[] = {{"1", "0.", "1."},
                {"10", "9.", "10."},
                {"0.5", "0.4", "0.5"},
                {"299.25", "299.24", "299.25"},
                {"1000000000000000000", "", "1000000000000000"}};
  int n_in = 0, n_out = 0;
  for (const auto& c : kCases) {
    const double bound = std::stod(c.bound);
    for (const char* const more : {"", R"(,"not":{"multipleOf":4})"}) {
      for (const bool is_upper : {false, true}) {
        for (const std::string sign : {"", "-"}) {
          const auto grammar = compiled(std::string(R"({"type":"number",")") +
                                            (is_upper ? "exclusiveMaximum" : "exclusiveMinimum") +
                                            "\":" + sign + c.bound + more + "}",
                                        Format::kJsonSchema);
          const bool is_below = is_upper == sign.empty();  // says which magnitudes fit
          for (int n = 1; n < 22; ++n) {
            const auto digits = static_cast<size_t>(n);
            const std::string text = is_below ? c.below + std::string(digits, '9')
                                              : c.above + std::string(digits, '0') + "1";
            const double read = std::stod(text);
            const bool fits = reads(grammar, sign + text);
            (fits ? n_in : n_out) += 1;
            const bool is_in = is_below ? read < bound : read > bound;
            EXPECT_TRUE(is_in || !fits) << more << sign << text;
            // Doubles tell numbers of 15 digits from each other.
            EXPECT_TRUE(fits || !is_in || text.size() > 15) << more << sign << text;
          }
        }
      }
    }
  }
  EXPECT_GT(n_in, 100);
  EXPECT_GT(n_out, 100);
}

TEST(JsonSchema, NoTextIsReadAsANumberThatIsNamed) {
  int n_out = 0;
  for (const std::string named : {"1", "-1", "0.1", "299.25", "-1e15", "0"}) {
    const double out = std::stod(named);
    const auto grammar =
        compiled(R"({"type":"number","not":{"enum":[7,)" + named + "]}}", Format::kJsonSchema);
    EXPECT_FALSE(reads(grammar, "7.0"));
    EXPECT_TRUE(reads(grammar, "3"));
    const std::string sign = out < 0 ? "-" : "";
    for (int n = 1; n <= 16; ++n) {
      for (const double step : {std::pow(10.0, -n), 0.0, -std::pow(10.0, -n)}) {
        const std::string text = fmt::format("{:.{}f}", out + step, n);
        const double read = std::stod(text);
        const bool fits = reads(grammar, text);
        n_out += fits ? 0 : 1;
        EXPECT_TRUE(read != out || !fits) << named << ", " << text;
        EXPECT_TRUE(read == out || fits || text.size() > 15) << named << ", " << text;
      }
    }
    // More digits than a double has.
    for (const char* const more : {"0.99999999999999999", "1.0000000000000001"}) {
      EXPECT_TRUE(std::abs(out) != 1.0 || !reads(grammar, sign + more)) << named << ", " << more;
    }
  }
  EXPECT_GT(n_out, 50);
}

TEST(JsonSchema, FormatsMayBeRemarks) {
  CompileOptions remarks;
  remarks.formats_bind = false;
  const char* const schema = R"({"type":"string","format":"date"})";
  EXPECT_TRUE(accepts(compiled(schema, Format::kJsonSchema, remarks), "\"soon\""));
}

TEST(JsonSchema, PatternsAreNoNamesOfFormats) {
  check({{R"({"type":"object","additionalProperties":false,"properties":{
              "a":{"type":"string","format":"date"},"b":{"type":"string","pattern":"format date"}}})",
          {R"({"a":"2024-01-01","b":"a format date"})"},
          {R"({"b":"2024-01-01"})"}}});
}

TEST(JsonSchema, WhatMustComeIsForced) {
  Matcher matcher(compiled(R"({"type":"object","properties":{"name":{"type":"string"},
      "ok":{"const":true}},"required":["name","ok"],"additionalProperties":false})",
                           Format::kJsonSchema));
  EXPECT_EQ(matcher.forced(100), "{\"name\":\"");
  for (const char c : std::string("{\"name\":\"x\"")) {
    ASSERT_TRUE(matcher.advance(3 + static_cast<uint8_t>(c)));
  }
  EXPECT_EQ(matcher.forced(100), ",\"ok\":true}");
}

}  // namespace
}  // namespace troika::grammar
