#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "grammar/grammar_test_support.h"
#include "grammar/schema/plain_validator_test_support.h"

namespace troika::grammar {
namespace {

using OrderedJson = PlainValidator::Json;

// Makes schemas of objects with the keys a to c that ask for each other in every way.
class RandomSchemas {
 public:
  RandomSchemas(uint32_t seed, bool has_unevaluated)
      : random_(seed), has_unevaluated_(has_unevaluated) {}

  OrderedJson schema(int depth) {
    OrderedJson s = members();
    if (depth == 0) return s;
    for (const char* const keyword : {"anyOf", "oneOf", "allOf"}) {
      if (!maybe(3)) continue;
      s[keyword] = OrderedJson::array();
      for (uint32_t n = 2 + below(2); n > 0; --n) s[keyword].push_back(schema(depth - 1));
    }
    if (maybe(5)) s["not"] = schema(depth - 1);
    if (maybe(4)) {
      s["if"] = schema(depth - 1);
      if (!maybe(3)) s["then"] = schema(depth - 1);
      if (!maybe(3)) s["else"] = schema(depth - 1);
    }
    if (maybe(5)) s["$ref"] = "#/$defs/d";
    if (has_unevaluated_ && maybe(2)) s["unevaluatedProperties"] = value();
    return s;
  }

  OrderedJson members() {
    OrderedJson s = OrderedJson::object();
    if (maybe(3)) s["type"] = "object";
    if (!maybe(5)) s["properties"] = {{key(), value()}, {key(), value()}};
    if (maybe(2)) s["required"] = OrderedJson::array({key()});
    if (maybe(4)) s["additionalProperties"] = value();
    return s;
  }

 private:
  uint32_t below(uint32_t n) { return next_random(&random_, n); }
  bool maybe(uint32_t n) { return below(n) == 0; }
  std::string key() { return std::string(1, static_cast<char>('a' + below(3))); }
  OrderedJson value() {
    const OrderedJson values[] = {1, "x", nullptr};
    switch (below(6)) {
      case 0:
        return {{"const", values[below(3)]}};
      case 1:
        return {{"enum", {values[below(3)], values[below(3)]}}};
      case 2:
        return {{"type", maybe(2) ? "integer" : "string"}};
      case 3:
        return {{"not", {{"const", values[below(3)]}}}};
      case 4:
        return false;
      default:
        return true;
    }
  }

  uint32_t random_;
  bool has_unevaluated_;
};

// Returns every object of up to three of the keys a to d, in all orders of its keys.
std::vector<std::pair<OrderedJson, std::vector<std::string>>> all_objects() {
  std::vector<std::pair<OrderedJson, std::vector<std::string>>> objects;
  const OrderedJson values[] = {1, "x", nullptr};
  for (int code = 0; code < 256; ++code) {
    OrderedJson object = OrderedJson::object();
    std::vector<std::string> members;
    for (int k = 0; k < 4; ++k) {
      const int value = code >> (2 * k) & 3;
      if (value == 3) continue;
      const std::string key(1, static_cast<char>('a' + k));
      object[key] = values[value];
      members.push_back("\"" + key + "\":" + values[value].dump());
    }
    if (members.size() > 3) continue;
    std::sort(members.begin(), members.end());
    std::vector<std::string> texts;
    do {
      const auto joined = [](const std::string& a, const std::string& b) {
        return a.empty() ? b : a + "," + b;
      };
      texts.push_back("{" + std::accumulate(members.begin(), members.end(), std::string(), joined) +
                      "}");
    } while (std::next_permutation(members.begin(), members.end()));
    objects.emplace_back(object, texts);
  }
  objects.emplace_back(1, std::vector<std::string>{"1"});
  return objects;
}

void check_random_schemas(bool has_unevaluated, uint32_t seed) {
  const auto objects = all_objects();
  RandomSchemas random(seed, has_unevaluated);
  CompileOptions options;
  options.limits.n_compile_steps = 300'000;
  int n_read = 0, n_refused = 0, n_fitting = 0;
  for (int i = 0; i < 120; ++i) {
    OrderedJson schema = random.schema(2);
    schema["$defs"] = {{"d", random.members()}};
    const PlainValidator validator(schema);
    std::shared_ptr<Grammar> grammar;
    try {
      grammar = compiled(schema.dump(), Format::kJsonSchema, options);
    } catch (const Error& error) {
      const bool is_empty = std::string(error.what()).find("No text fits") != std::string::npos;
      n_refused += is_empty ? 0 : 1;
      for (const auto& [object, texts] : objects) {
        ASSERT_FALSE(is_empty && validator.fits(object)) << schema << object;
      }
      continue;
    }
    ++n_read;
    for (const auto& [object, texts] : objects) {
      const bool fits = validator.fits(object);
      n_fitting += fits ? 1 : 0;
      const bool is_read = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
        return reads(grammar, text);
      });
      ASSERT_EQ(is_read, fits) << schema << object;
    }
  }
  EXPECT_GT(n_read, 40);
  EXPECT_LT(n_refused, 60);
  EXPECT_GT(n_fitting, 500);
}

TEST(Choices, AgreeWithAPlainValidator) { check_random_schemas(false, 5); }

TEST(Choices, UnevaluatedMembersAgreeWithAPlainValidator) { check_random_schemas(true, 6); }

// Thirty alternatives differ in one constant that need not be there, so each says of each other why
// it does not fit. All but some combinations are decided as soon as that member is there or not.
TEST(Choices, OfManyAlternativesAreDecidedByAMemberThatMayBeMissing) {
  std::string ways;
  for (int i = 0; i < 30; ++i) {
    ways += (i > 0 ? "," : "") + std::string(R"({"properties":{"kind":{"enum":["k)") +
            std::to_string(i) + R"("]},"text":{"type":"string"},"own)" + std::to_string(i % 7) +
            R"(":{"type":"integer"}}})";
  }
  CompileOptions options;
  options.limits.n_compile_steps = 2'000'000;
  options.limits.n_schemas = 2000;
  const auto grammar =
      compiled(R"({"type":"object","oneOf":[)" + ways + "]}", Format::kJsonSchema, options);
  EXPECT_TRUE(reads(grammar, R"({"kind":"k3","text":"a"})"));
  EXPECT_TRUE(reads(grammar, R"({"kind":"k10","text":"a","own3":1})"));
  EXPECT_FALSE(reads(grammar, R"({"kind":"k3","own3":"a"})"));
  EXPECT_FALSE(reads(grammar, R"({"kind":"k"})"));
  EXPECT_FALSE(reads(grammar, R"({"text":"a"})"));
}

TEST(Choices, ObjectsAreToldApartByWhatOneWantsAndAnotherForbids) {
  const auto grammar = compiled(R"({"oneOf":[
      {"type":"object","properties":{"a":{"type":"array","uniqueItems":false}},"required":["a"],
       "additionalProperties":false},
      {"type":"object","properties":{"b":{"uniqueItems":true,"maxItems":1}},"required":["b"]}]})",
                                Format::kJsonSchema);
  EXPECT_TRUE(accepts(grammar, R"({"a":[1,1]})"));
  EXPECT_TRUE(accepts(grammar, R"({"b":[1]})"));
  EXPECT_TRUE(accepts(grammar, R"({"b":[],"a":[]})"));
  EXPECT_FALSE(accepts(grammar, R"({"a":[],"c":[]})"));
  EXPECT_FALSE(accepts(grammar, R"({"b":[1,1]})"));
  const auto patterns = compiled(R"({"oneOf":[
      {"type":"object","patternProperties":{"^x":{"type":"array","uniqueItems":false}},
       "additionalProperties":false},
      {"type":"object","required":["b"],"properties":{"b":{"type":"array","uniqueItems":true,
       "maxItems":1}}}]})",
                                 Format::kJsonSchema);
  EXPECT_TRUE(accepts(patterns, R"({"x1":[1,1]})"));
  EXPECT_TRUE(accepts(patterns, R"({"b":[1]})"));
  EXPECT_TRUE(accepts(patterns, R"({"b":[],"x":1})"));
  EXPECT_FALSE(accepts(patterns, R"({"x":1})"));
  EXPECT_FALSE(accepts(patterns, R"({"b":1})"));
}

TEST(Choices, BetweenSchemasThatContainThemselves) {
  const auto grammar = compiled(R"({"$ref":"#/$defs/any","$defs":{
      "any":{"oneOf":[{"$ref":"#/$defs/rule"},{"$ref":"#/$defs/group"}]},
      "rule":{"type":"object","properties":{"a":{"type":"string"},"sub":{"$ref":"#/$defs/any"}}},
      "group":{"type":"object","required":["rules"],"properties":{"sub":{"$ref":"#/$defs/any"},
      "rules":{"type":"array","items":{"$ref":"#/$defs/any"}}}}}})",
                                Format::kJsonSchema);
  for (const char* const text :
       {R"({"a":"x"})", R"({"rules":[],"a":1})", R"({"rules":[{"a":1}]})", R"({"rules":1})",
        R"({"sub":{"a":"x"},"rules":[{},{}],"a":1})", R"({"sub":{"sub":{}}})"}) {
    EXPECT_TRUE(reads(grammar, text)) << text;
  }
  for (const char* const text :
       {R"({"rules":[]})", R"({"a":1})", R"({"sub":{"a":1}})", R"({"sub":{"a":1},"rules":[]})",
        R"({"rules":[{"a":1}],"a":1})", R"({"sub":{"sub":{"rules":[]}}})"}) {
    EXPECT_FALSE(reads(grammar, text)) << text;
  }
}

TEST(Choices, KeysMayFitManyPatterns) {
  std::string patterns;
  for (const char c : std::string("abcdefgh")) {
    patterns +=
        (patterns.empty() ? "\"^" : ",\"^") + std::string(1, c) + R"(":{"const":")" + c + R"("})";
  }
  const auto grammar = compiled(
      R"({"type":"object","additionalProperties":false,"patternProperties":{)" + patterns + "}}",
      Format::kJsonSchema);
  EXPECT_TRUE(reads(grammar, R"({"ab":"a","h":"h"})"));
  EXPECT_FALSE(reads(grammar, R"({"ab":"b"})"));
  EXPECT_FALSE(reads(grammar, R"({"i":"i"})"));
  std::string many;
  for (int i = 0; i < 6; ++i) {
    many += (i > 0 ? ",\"" : "\"") + std::string(1, static_cast<char>('a' + i)) + "\":true";
  }
  const std::string error =
      error_of(R"({"type":"object","patternProperties":{)" + many + "}}", Format::kJsonSchema);
  EXPECT_NE(error.find("#/patternProperties: keys that fit so many"), std::string::npos) << error;
}

// Each way says of six words that they must not stand in the text. All positions in seven words
// together are ten thousands of states, of which compiling may not visit all.
TEST(Choices, BetweenWordsThatMayStandAnywhere) {
  CompileOptions options;
  options.limits.n_compile_steps = 300'000;
  options.limits.n_mask_steps = 300'000;
  const auto grammar = compiled(R"({"type":"string","oneOf":[{"pattern":"NEW"},
      {"pattern":"ON_APPROVAL"},{"pattern":"ON_SIGNING"},{"pattern":"ON_MODIFICATION"},
      {"pattern":"EXECUTED"},{"pattern":"DEPRECATED"},{"pattern":"REJECTED"}]})",
                                Format::kJsonSchema, options);
  EXPECT_TRUE(accepts(grammar, R"("NEW")"));
  EXPECT_TRUE(accepts(grammar, R"("x ON_ON_MODIFICATION é NE")"));
  EXPECT_FALSE(accepts(grammar, R"("NEW ON_SIGNING")"));
  EXPECT_FALSE(accepts(grammar, R"("EXECUTE")"));
}

// Whether such texts exist is not seen in few states, nor by a shortest text of the first pattern.
TEST(Choices, WhatIsLeftOfLongTextsIsFound) {
  const auto one_left = compiled(R"({"type":"string","pattern":"^(a{100}|b{101}|c{102})$",
      "allOf":[{"not":{"pattern":"a{100}"}},{"not":{"pattern":"b{101}"}}]})",
                                 Format::kJsonSchema);
  EXPECT_TRUE(reads(one_left, '"' + std::string(102, 'c') + '"'));
  EXPECT_FALSE(reads(one_left, '"' + std::string(100, 'a') + '"'));
  EXPECT_FALSE(reads(one_left, '"' + std::string(101, 'b') + '"'));
  for (const char* const texts : {"^(a{100}|b{101})$", "^a{100}$"}) {
    const std::string error = error_of(R"({"type":"string","pattern":")" + std::string(texts) +
                                           R"(","allOf":[{"not":{"pattern":"a{100}"}},
                                           {"not":{"pattern":"b{101}"}}]})",
                                       Format::kJsonSchema);
    EXPECT_NE(error.find("cannot be"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace troika::grammar
