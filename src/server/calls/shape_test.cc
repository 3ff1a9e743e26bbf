// Reads calls of tools as real chat templates write them: a shape that was found by probing must
// read back what the template itself writes. The templates lie in the folder TROIKA_DATA, and
// nowhere in the project.
#include "server/calls/shape.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/chat.h"
#include "grammar/pool.h"
#include "grammar/readers.h"
#include "server/calls/answer_readers.h"
#include "server/calls/completed_template.h"
#include "tests/support/tiny_engine.h"

namespace troika::server {
namespace {

using ShapeJson = nlohmann::ordered_json;

std::map<std::string, std::string> real_templates() {
  std::map<std::string, std::string> templates;
  const char* const data = std::getenv("TROIKA_DATA");
  const std::filesystem::path folder =
      std::filesystem::path(data != nullptr ? data : "") / "chat-templates";
  if (data == nullptr || !std::filesystem::exists(folder)) return templates;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path());
    std::stringstream text;
    text << in.rdbuf();
    templates[entry.path().stem().string()] = text.str();
  }
  return templates;
}

// Returns "name(arguments)" for each call, and the text around the calls.
std::string read_back(const CallShape& shape, const std::string& text) {
  CallReader reader(shape);
  std::string calls;
  const auto add = [&](const std::vector<Delta>& deltas) {
    for (const Delta& delta : deltas) {
      if (delta.kind == Delta::Kind::kCall) {
        calls += "|" + delta.text + ":";
      } else if (delta.kind == Delta::Kind::kArguments) {
        calls += delta.text;
      }
    }
  };
  for (const char c : text) add(reader.push(std::string_view(&c, 1)));
  add(reader.finish());
  return calls;
}

TEST(CallShapes, ReadBackWhatRealTemplatesWrite) {
  const std::map<std::string, std::string> templates = real_templates();
  if (templates.empty()) GTEST_SKIP() << "TROIKA_DATA names no folder with chat-templates.";
  test_support::TinyEngine tiny;
  int n_of_template = 0;
  for (const auto& [name, source] : templates) {
    const engine::ChatFormat chat(*tiny.engine, completed_template(source));
    const CallShape shape = find_shape(chat);
    const ThoughtMarks marks = find_thought_marks(chat);
    RecordProperty(name, shape.is_of_template ? shape.before + "NAME" + shape.middle : "none");
    if (std::getenv("TROIKA_SHOW") != nullptr) {
      std::cout << name
                << (shape.is_of_template ? shape.pairs ? " | (pairs) " : " | " : " | (common) ")
                << ShapeJson(shape.before + "NAME" + shape.middle + "ARGS" + shape.after).dump()
                << " | " << ShapeJson(shape.between).dump() << " | " << marks.open << "\n";
    }
    EXPECT_TRUE(shape.is_of_template || !name.starts_with("LFM2")) << name;
    if (!shape.is_of_template) continue;
    ++n_of_template;
    std::string arguments = R"({"a":"}\"","b":[1]})", none = "{}", id;
    std::string expected = "|first:" + arguments;
    if (shape.pairs) {
      const CallShape::Pairs& p = *shape.pairs;
      arguments = p.open + "a" + p.to_text + "}\"" + p.close_of("a") + p.open + "b" + p.to_json +
                  "[1]" + p.close_of("b");
      none.clear();
    }
    if (!shape.text_mark.empty()) {
      arguments = "{a:" + shape.text_mark + "}\"" + shape.text_mark + ",b:[1]}";
    }
    if (!shape.behind_id.empty()) id = "a1" + shape.behind_id;
    const std::string count = shape.behind_count.empty() ? "" : "0" + shape.behind_count;
    std::string text = shape.before + id + "first" + shape.middle + count + arguments;
    if (!shape.between.empty()) {
      text += shape.between + id + "second" + shape.middle + count + none;
      expected += "|second:{}";
    }
    EXPECT_EQ(read_back(shape, text + shape.after), expected) << name;
  }
  EXPECT_GT(n_of_template, 10) << "of " << templates.size();
}

// Returns the shape in which several families of models write pairs: texts without quotes, other
// values in JSON.
CallShape shape_of_pairs() {
  CallShape shape;
  shape.before = "<call>\n<function=";
  shape.middle = ">\n";
  shape.after = "</function>\n</call>";
  shape.between = shape.after + "\n" + shape.before;
  shape.is_of_template = true;
  shape.pairs = {"<parameter=", ">\n", ">\n", "\n</parameter>\n"};
  return shape;
}

const ShapeJson& pairs_schema() {
  static const ShapeJson schema = ShapeJson::parse(R"({"type": "object", "properties": {
    "city": {"type": "string", "maxLength": 5}, "days": {"$ref": "#/$defs/count"},
    "kind": {"enum": ["warm", "cold"]}, "more": {"type": ["string", "null"]}},
    "required": ["city"], "$defs": {"count": {"type": "integer", "minimum": 1}}})");
  return schema;
}

TEST(Pairs, BecomeJsonByTheirSchema) {
  const CallShape shape = shape_of_pairs();
  CallReader reader(shape, [](const std::string& name, const std::string& key) {
    EXPECT_EQ(name, "weather");
    return kinds_of_property(pairs_schema(), key);
  });
  std::string arguments, text;
  const auto pair = [](const std::string& key, const std::string& value) {
    return "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
  };
  const std::string whole = "Well. " + shape.before + "weather" + shape.middle +
                            pair("city", "12") + pair("days", "3") + pair("kind", "warm") +
                            pair("more", "a \"b\" <c>\n") + shape.after;
  const auto take = [&](const std::vector<Delta>& deltas) {
    for (const Delta& delta : deltas) {
      if (delta.kind == Delta::Kind::kArguments) arguments += delta.text;
      if (delta.kind == Delta::Kind::kText) text += delta.text;
    }
  };
  for (const char c : whole) take(reader.push(std::string_view(&c, 1)));
  take(reader.finish());
  EXPECT_EQ(arguments, R"({"city":"12","days":3,"kind":"warm","more":"a \"b\" <c>\n"})");
  EXPECT_EQ(text, "Well.");
}

TEST(Pairs, FollowChoicesHoweverManyStandBehindEachOther) {
  const ShapeJson round = ShapeJson::parse(
      R"({"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}, {"type": "string"}]}}})");
  EXPECT_TRUE(kinds_of_property(round, "a").text);
  EXPECT_FALSE(kinds_of_property(round, "a").other);
  constexpr int kChoices = 100'000;
  std::string chain;
  for (int i = 1; i <= kChoices; ++i) {
    chain += R"({"anyOf": [{"$ref": "#/$defs/x/)" + std::to_string(i) + R"("}]},)";
  }
  const ShapeJson schema =
      ShapeJson::parse(R"({"properties": {"a": {"$ref": "#/$defs/x/0"}}, "$defs": {"x": [)" +
                       chain + R"({"type": "integer"}]}})");
  EXPECT_FALSE(kinds_of_property(schema, "a").text);
  EXPECT_TRUE(kinds_of_property(schema, "a").other);
}

TEST(MarkedSchemas, HoldTextsBetweenMarks) {
  const auto is_accepted = [](const std::string& schema, const std::string& text) {
    const grammar::Limits limits;
    grammar::Pool pool(limits);
    grammar::Expr at =
        pool.seal(grammar::read_marked_schema(schema, {"<q>", "<q>"}, limits, &pool));
    for (const char c : text) at = pool.step(at, static_cast<uint8_t>(c));
    return pool.nullable(at);
  };
  const std::string schema = R"({"type": "object", "properties": {
    "name": {"type": "string", "pattern": "^[A-Z\"]", "maxLength": 4}, "kind": {"enum": ["a b", 3]},
    "more": {"type": "array", "items": {"type": "string"}}}, "required": ["name"],
    "additionalProperties": {"type": "boolean"}})";
  EXPECT_TRUE(is_accepted(schema, "{name:<q>Rome<q>}"));
  EXPECT_TRUE(is_accepted(schema, "{name:<q>\"\n<é<q>,kind:<q>a b<q>,more:[<q><q>,<q>,<q>]}"));
  EXPECT_TRUE(is_accepted(schema, "{name:<q>Ro<q>,kind:3,other:true}"));
  EXPECT_FALSE(is_accepted(schema, "{name:<q>rome<q>}"));
  EXPECT_FALSE(is_accepted(schema, "{name:<q>Romes<q>}"));
  EXPECT_FALSE(is_accepted(schema, "{name:\"Rome\"}"));
  EXPECT_FALSE(is_accepted(schema, "{\"name\":<q>Rome<q>}"));
  EXPECT_FALSE(is_accepted(schema, "{name:<q>Ro<q>,kind:<q>ab<q>}"));
}

TEST(Pairs, AreHeldToTheSchema) {
  const CallShape shape = shape_of_pairs();
  const auto is_accepted = [&](const ShapeJson& schema, const std::string& text) {
    const grammar::Limits limits;
    grammar::Pool pool(limits);
    grammar::Expr at = pool.seal(pairs_expr(&pool, schema, *shape.pairs));
    for (const char c : text) at = pool.step(at, static_cast<uint8_t>(c));
    return pool.nullable(at);
  };
  const auto pair = [](const std::string& key, const std::string& value) {
    return "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
  };
  const ShapeJson& schema = pairs_schema();
  EXPECT_TRUE(is_accepted(schema, pair("city", "Rome")));
  EXPECT_TRUE(is_accepted(schema, pair("city", "") + pair("days", "3") + pair("kind", "cold")));
  EXPECT_TRUE(is_accepted(schema, pair("city", "a\nb") + pair("more", "null")));
  EXPECT_FALSE(is_accepted(schema, "")) << "the city is missing";
  EXPECT_FALSE(is_accepted(schema, pair("city", "London")));
  EXPECT_FALSE(is_accepted(schema, pair("city", "Rome") + pair("days", "0")));
  EXPECT_FALSE(is_accepted(schema, pair("city", "Rome") + pair("kind", "hot")));
  EXPECT_FALSE(is_accepted(schema, pair("days", "3") + pair("city", "Rome"))) << "another order";
  EXPECT_TRUE(is_accepted(ShapeJson{{"type", "object"}}, ""));
  const ShapeJson with_pattern =
      ShapeJson::parse(R"({"properties": {"a": {"type": "string", "pattern": "^b+$"}}})");
  EXPECT_TRUE(is_accepted(with_pattern, pair("a", "bb")));
  EXPECT_FALSE(is_accepted(with_pattern, pair("a", "bc")));
  // A reference may lead to another property, or back to the whole.
  const ShapeJson among =
      ShapeJson::parse(R"({"type": "object", "properties": {"a": {"type": "integer"},
                            "b": {"$ref": "#/properties/a"}, "c": {"$ref": "#"}}})");
  EXPECT_TRUE(is_accepted(among, pair("b", "12") + pair("c", R"({"a":1,"c":{"b":2}})")));
  EXPECT_FALSE(is_accepted(among, pair("b", "x")));
  EXPECT_FALSE(is_accepted(among, pair("c", R"({"a":"x"})")));
  // A reference may lead to the whole, and its definitions stand where it stands.
  const ShapeJson led = ShapeJson::parse(
      R"({"$ref": "#/$defs/all", "title": "t", "$defs": {"n": {"type": "integer"}, "all":
          {"type": ["object", "null"], "properties": {"a": {"$ref": "#/$defs/n", "default": 1}}}}})");
  EXPECT_TRUE(is_accepted(led, pair("a", "12")));
  EXPECT_FALSE(is_accepted(led, pair("a", "b")));
  for (const char* const refused :
       {R"({"anyOf": []})", R"({"properties": {}, "required": ["a"]})",
        R"({"properties": {"a": {"$ref": "#/b"}}})", "true", R"({"properties": ["a"]})",
        R"({"required": {}})", R"({"maxProperties": 1})", R"({"propertyNames": {}})",
        R"({"enum": [{}]})", R"({"const": {}})", R"({"type": "string"})",
        R"({"dependencies": {"a": ["b"]}})",
        R"({"$ref": "#/$defs/a", "required": ["b"], "$defs": {"a": {}}})",
        R"({"properties": {"a": {"$ref": "#/$defs/a", "maxLength": 3}},
                                        "$defs": {"a": {"type": "string"}}})",
        R"({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs":
                                        {"a": {"$ref": "#/$defs/b", "type": "null"}, "b": {}}})"}) {
    EXPECT_THROW(is_accepted(ShapeJson::parse(refused), ""), Error) << refused;
  }
}

// A client decides how much a tool defines, and how many properties it has.
TEST(Pairs, ReadWhatPropertiesShareNoMoreThanTwice) {
  constexpr int kProperties = 500;
  const grammar::Limits limits;
  const auto steps = [&](size_t n_bytes, uint64_t n_most) {
    ShapeJson schema = {{"$defs", {{"a", {{"description", std::string(n_bytes, 'x')}}}}}};
    for (int i = 0; i < kProperties; ++i) {
      schema["properties"]["p" + std::to_string(i)] = ShapeJson::object();
    }
    grammar::Pool pool(limits);
    pool.allow_steps(n_most);
    pairs_expr(&pool, schema, *shape_of_pairs().pairs);
  };
  constexpr size_t kBytes = 400'000;
  constexpr uint64_t kEnough = 80'000;  // for the properties
  steps(0, kEnough);
  steps(kBytes, kEnough + kBytes / 4);
  EXPECT_THROW(steps(kBytes, kEnough), grammar::TooMuchWork) << "the bytes are not counted";
}

// Clients name many a dialect in their tools. One that is known decides what references mean.
TEST(Pairs, ReadToolsOfAnyDialect) {
  for (const char* dialect : {R"("http://json-schema.org/schema#")", R"("x")", "7", "null",
                              R"("http://json-schema.org/draft-07/schema#")"}) {
    const ShapeJson schema = ShapeJson::parse(
        fmt::format(R"({{"$schema": {}, "properties": {{"a": {{"type": "integer"}}}}}})", dialect));
    grammar::Pool pool(grammar::Limits{});
    EXPECT_NO_THROW(pairs_expr(&pool, schema, *shape_of_pairs().pairs)) << dialect;
  }
}

// Each reference is looked up among all keys beside the one that it names.
TEST(Pairs, CountTheKeysThatReferencesAreLookedUpAmong) {
  ShapeJson schema = ShapeJson::parse(R"({"properties": {"a": {"anyOf": []}}})");
  for (int i = 0; i < 1000; ++i) {
    schema["$defs"]["d" + std::to_string(i)] = {{"type", "string"}};
    schema["properties"]["a"]["anyOf"].push_back({{"$ref", "#/$defs/d999"}});
  }
  grammar::Pool pool(grammar::Limits{});
  pool.allow_steps(50'000);
  EXPECT_THROW(pairs_expr(&pool, schema, *shape_of_pairs().pairs), grammar::TooMuchWork);
}

TEST(Pairs, MayEndWithTheirKeys) {
  const CallShape::Pairs pairs = {"<", ">", ">", "</", ">"};
  const ShapeJson schema =
      ShapeJson::parse(R"({"properties": {"a": {"type": "string", "pattern": "^x"},
                            "b": {"type": "string", "pattern": "^x"}, "c": {"type": "integer"}}})");
  const auto is_accepted = [&](const std::string& text) {
    grammar::Pool pool(grammar::Limits{});
    grammar::Expr at = pool.seal(pairs_expr(&pool, schema, pairs));
    for (const char c : text) at = pool.step(at, static_cast<uint8_t>(c));
    return pool.nullable(at);
  };
  EXPECT_TRUE(is_accepted("<a>x</b></a><b>x</a></b><c>1</c>"));
  EXPECT_FALSE(is_accepted("<a>x</b>"));
  EXPECT_FALSE(is_accepted("<a>x</a><b>x</b></b>"));
  EXPECT_FALSE(is_accepted("<b>y</b>"));
}

}  // namespace
}  // namespace troika::server
