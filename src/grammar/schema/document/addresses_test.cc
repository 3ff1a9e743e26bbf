#include "grammar/schema/document/addresses.h"

#include <gtest/gtest.h>

#include "grammar/grammar_test_support.h"

namespace troika::grammar {
namespace {

// These are examples of RFC 3986, chapter 5.4, and of addresses that have no folders.
TEST(Addresses, AreResolvedAsTheStandardSays) {
  const char* const base = "http://a/b/c/d;p?q";
  const std::pair<const char*, const char*> cases[] = {{"g:h", "g:h"},
                                                       {"g", "http://a/b/c/g"},
                                                       {"./g", "http://a/b/c/g"},
                                                       {"g/", "http://a/b/c/g/"},
                                                       {"/g", "http://a/g"},
                                                       {"//g", "http://g"},
                                                       {"?y", "http://a/b/c/d;p?y"},
                                                       {"g?y", "http://a/b/c/g?y"},
                                                       {"#s", "http://a/b/c/d;p?q#s"},
                                                       {"g#s", "http://a/b/c/g#s"},
                                                       {"", "http://a/b/c/d;p?q"},
                                                       {".", "http://a/b/c/"},
                                                       {"..", "http://a/b/"},
                                                       {"../g", "http://a/b/g"},
                                                       {"../..", "http://a/"},
                                                       {"../../../g", "http://a/g"},
                                                       {"/./g", "http://a/g"},
                                                       {"g;x=1/../y", "http://a/b/c/y"}};
  for (const auto& [reference, address] : cases) {
    EXPECT_EQ(schema::resolved_address(base, reference), address) << reference;
  }
  EXPECT_EQ(schema::resolved_address("", "node"), "node");
  EXPECT_EQ(schema::resolved_address("tree", "node#a"), "node#a");
  EXPECT_EQ(schema::resolved_address("http://a", "b"), "http://a/b");
  EXPECT_EQ(schema::resolved_address("urn:uuid:1", "#a"), "urn:uuid:1#a");
  EXPECT_EQ(schema::unescaped_address("a%41%zz%2"), "aA%zz%2");
}

TEST(Addresses, OfSchemasInOneTextAreFound) {
  const auto tree = compiled(R"({"$id":"http://x/tree","type":"object","required":["nodes"],
      "properties":{"nodes":{"type":"array","items":{"$ref":"node"}}},"additionalProperties":false,
      "$defs":{"node":{"$id":"http://x/node","type":"object","additionalProperties":false,
      "properties":{"value":{"$ref":"#/$defs/number"},"subtree":{"$ref":"tree"}},
      "$defs":{"number":{"type":"integer"}}},"number":{"type":"null"}}})",
                             Format::kJsonSchema);
  EXPECT_TRUE(accepts(tree, R"({"nodes":[{"value":1,"subtree":{"nodes":[{"value":2}]}}]})"));
  EXPECT_FALSE(accepts(tree, R"({"nodes":[{"value":null}]})"));
  EXPECT_FALSE(accepts(tree, R"({"nodes":[{"value":1,"subtree":{}}]})"));
}

TEST(Addresses, HaveAnchorsOfTheirOwn) {
  const auto grammar = compiled(R"({"$id":"http://x/root","$ref":"child#word","$defs":{
      "a":{"$id":"child","$defs":{"w":{"$anchor":"word","type":"integer"}}},
      "b":{"$anchor":"word","type":"string"}}})",
                                Format::kJsonSchema);
  EXPECT_TRUE(accepts(grammar, "1"));
  EXPECT_FALSE(accepts(grammar, "\"a\""));
}

// Values and schemas under keys that no draft knows have no addresses, whatever they look like.
TEST(Addresses, StandInSchemasAlone) {
  const auto grammar = compiled(R"({"$id":"http://x/root","enum":[{"$id":"http://x/a"},1],
      "properties":{"$id":{"type":"string"}},"anyOf":[{"$ref":"a"},{"type":"integer"}],
      "$defs":{"a":{"$id":"a","type":"null"}}})",
                                Format::kJsonSchema);
  EXPECT_TRUE(accepts(grammar, "1"));
  EXPECT_FALSE(accepts(grammar, R"({"$id":"http://x/a"})"));
  const std::string error =
      error_of(R"({"$ref":"#/mine/a","mine":{"a":{"$id":"b"}}})", Format::kJsonSchema);
  EXPECT_NE(error.find("#/mine/a/$id"), std::string::npos) << error;
}

TEST(Addresses, OfOlderDrafts) {
  const auto grammar = compiled(R"({"$schema":"http://json-schema.org/draft-04/schema#",
      "id":"http://x/root#","type":"array","items":[{"$ref":"#word"},{"$ref":"root#/definitions/n"},
      {"$ref":"other#/definitions/n"}],"additionalItems":false,
      "definitions":{"w":{"id":"#word","type":"string"},"n":{"type":"integer"},
      "o":{"id":"other","definitions":{"n":{"type":"null"}}}}})",
                                Format::kJsonSchema);
  EXPECT_TRUE(accepts(grammar, R"(["a",1,null])"));
  EXPECT_FALSE(accepts(grammar, R"(["a",1,1])"));
  EXPECT_FALSE(accepts(grammar, "[1]"));
  // Nothing counts beside a reference, and an address neither.
  const auto beside = compiled(R"({"$schema":"http://json-schema.org/draft-07/schema#",
      "$id":"http://x/a/b","$ref":"#/definitions/n","definitions":{"n":{"type":"integer"}}})",
                               Format::kJsonSchema);
  EXPECT_TRUE(accepts(beside, "1"));
}

// In drafts up to 7 nothing counts beside "$ref", though other references may lead there.
TEST(Addresses, OfOlderDraftsHaveNothingBesideThem) {
  const std::string head = R"({"$schema":"http://json-schema.org/draft-07/schema#",)";
  const std::string definitions = R"("definitions":{"i":{"type":"integer"}},)";
  const std::string limited = R"({"$ref":"#/definitions/i","maximum":5})";
  const auto old = [&](const std::string& rest) {
    return compiled(head + definitions + rest + "}", Format::kJsonSchema);
  };
  EXPECT_FALSE(accepts(old(R"("not":)" + limited), "7"));
  EXPECT_TRUE(accepts(old(R"("not":)" + limited), "null"));
  EXPECT_FALSE(accepts(old(R"("not":{"$ref":"#/mine/a"},"mine":{"a":)" + limited + "}"), "7"));
  EXPECT_TRUE(accepts(old(R"("items":)" + limited), "[7]"));
  EXPECT_FALSE(accepts(old(R"("items":)" + limited), "[null]"));
  const auto newer =
      compiled("{" + definitions + R"("items":)" + limited + "}", Format::kJsonSchema);
  EXPECT_FALSE(accepts(newer, "[7]"));
  EXPECT_TRUE(accepts(newer, "[5]"));
  const auto beside = old(R"("$ref":"#/properties/x","properties":{"x":{"type":"array","items":{
      "$ref":"#/properties/y"}},"y":{"type":"null"}})");
  EXPECT_TRUE(accepts(beside, "[null]"));
  EXPECT_FALSE(accepts(beside, "[1]"));
  // What a schema names is no schema.
  const auto named = old(R"("enum":[{"$ref":"#/a","b":1},{"const":[{"$ref":"#/a","c":2}]}])");
  EXPECT_TRUE(accepts(named, R"({"$ref":"#/a","b":1})"));
  EXPECT_TRUE(accepts(named, R"({"const":[{"$ref":"#/a","c":2}]})"));
  const std::string error = error_of(
      head + R"("$ref":"#/properties/x","properties":{"x":{"type":"string","format":"regex"}}})",
      Format::kJsonSchema);
  EXPECT_NE(error.find("#/properties/x/format"), std::string::npos) << error;
}

TEST(Addresses, DynamicReferencesMeanTheOnlySchemaOfTheirAnchor) {
  const auto grammar = compiled(R"({"type":"array","items":{"$dynamicRef":"#word"},
      "$defs":{"a":{"$dynamicAnchor":"word","type":"string"}}})",
                                Format::kJsonSchema);
  EXPECT_TRUE(accepts(grammar, R"(["a"])"));
  EXPECT_FALSE(accepts(grammar, "[1]"));
  const std::string error = error_of(R"({"$dynamicRef":"#word","$defs":{
      "a":{"$dynamicAnchor":"word"},"b":{"$id":"b","$dynamicAnchor":"word"}}})",
                                     Format::kJsonSchema);
  EXPECT_NE(error.find("#/$dynamicRef: where several"), std::string::npos) << error;
  const auto nested = compiled(R"({"$schema":"https://json-schema.org/draft/2019-09/schema",
      "$recursiveAnchor":true,"type":"array","items":{"$recursiveRef":"#"}})",
                               Format::kJsonSchema);
  EXPECT_TRUE(accepts(nested, "[[],[[]]]"));
  EXPECT_FALSE(accepts(nested, "[1]"));
}

}  // namespace
}  // namespace troika::grammar
