// Makes the schema of all values that another schema does not accept, and says whether two schemas
// accept no value in common.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema/schema_reader.h"

namespace troika::grammar::schema {
namespace {

constexpr int kMostDepth = 16;

// Keywords that say something about values, though not in every form what can be turned round.
constexpr const char* kBinding[] = {"$dynamicRef",
                                    "$recursiveRef",
                                    "$ref",
                                    "additionalItems",
                                    "contains",
                                    "dependencies",
                                    "disallow",
                                    "dependentSchemas",
                                    "dependentRequired",
                                    "divisibleBy",
                                    "else",
                                    "enum",
                                    "extends",
                                    "if",
                                    "items",
                                    "maxContains",
                                    "maxItems",
                                    "maxLength",
                                    "maxProperties",
                                    "minContains",
                                    "minItems",
                                    "minLength",
                                    "minProperties",
                                    "multipleOf",
                                    "nullable",
                                    "prefixItems",
                                    "properties",
                                    "patternProperties",
                                    "required",
                                    "then",
                                    "unevaluatedItems",
                                    "unevaluatedProperties",
                                    "uniqueItems"};

Json names_of(uint8_t types) {
  Json names = Json::array();
  constexpr std::pair<uint8_t, const char*> kNames[] = {{kNull, "null"},     {kBoolean, "boolean"},
                                                        {kNumber, "number"}, {kString, "string"},
                                                        {kArray, "array"},   {kObject, "object"}};
  for (const auto& [type, name] : kNames) {
    if ((types & type) == type) names.push_back(name);
  }
  if ((types & kNumber) == kFraction) names.push_back(kFractions);
  return names;
}

}  // namespace

const Json* SchemaReader::resolved(const Json& schema) const {
  const Json* at = &schema;
  for (int i = 0; i < kMostDepth && at->is_object() && at->size() == 1 && at->contains("$ref");
       ++i) {
    const Json& ref = (*at)["$ref"];
    if (!ref.is_string()) break;
    at = &document_.target(*at, ref.get<std::string>());
  }
  return at;
}

// Returns the schema of values that break a keyword which counts, or null if the keyword does not
// count.
const Json* SchemaReader::with_other_count(const std::string& keyword, const Json& value,
                                           const Json& where) {
  constexpr const char* kCounts[][3] = {{"minLength", "maxLength", "string"},
                                        {"minItems", "maxItems", "array"},
                                        {"minProperties", "maxProperties", "object"}};
  if (!value.is_number_integer() || value < 0) return nullptr;
  for (const auto& [least, most, type] : kCounts) {
    if (keyword == most) {
      return &document_.made({{"type", type}, {least, value.get<int64_t>() + 1}}, where);
    }
    if (keyword != least) continue;
    if (value == 0) return &document_.made(false, where);
    return &document_.made({{"type", type}, {most, value.get<int64_t>() - 1}}, where);
  }
  return nullptr;
}

const Json* SchemaReader::with_other_bound(const std::string& keyword, const Json& value,
                                           const Json& where) {
  constexpr const char* kBounds[][2] = {{"minimum", "exclusiveMaximum"},
                                        {"maximum", "exclusiveMinimum"},
                                        {"exclusiveMinimum", "maximum"},
                                        {"exclusiveMaximum", "minimum"}};
  for (const auto& [bound, other] : kBounds) {
    if (keyword == bound) return &document_.made({{"type", "number"}, {other, value}}, where);
  }
  return with_other_count(keyword, value, where);
}

// Adds, for each property, the schema of objects that have it with a value that does not fit.
void SchemaReader::add_broken_properties(const Json& properties, const Json& where, int depth,
                                         Choice* ways) {
  for (const auto& [key, property] : properties.items()) {
    const Json& no = negated(checked(property), where, depth + 1);
    const Json& present = document_.made({{"type", "object"},
                                          {"properties", {{key, Json::object()}}},
                                          {"required", Json::array({key})}},
                                         where);
    groups_[&present["properties"][key]] = {false, {&no}};
    ways->push_back(&present);
  }
}

// Adds the schemas of objects with a member that breaks a keyword which speaks of undeclared keys.
// False where the keyword is another one.
bool SchemaReader::add_broken_members(const std::string& keyword, const Json& value,
                                      const Json& schema, const Json& where, int depth,
                                      Choice* ways) {
  const auto wanted = [&](Json keys, const Json& no) {
    keys["value"] = Json::object();
    const Json& way = document_.made({{"type", "object"}, {kWanted, std::move(keys)}}, where);
    groups_[&way[kWanted]["value"]] = {false, {&no}};
    ways->push_back(&way);
  };
  if (keyword == "additionalProperties") {
    Json keys = {{"names", Json::array()}, {"patterns", Json::array()}};
    constexpr const char* kDeclared[][2] = {{"properties", "names"},
                                            {"patternProperties", "patterns"}};
    for (const auto& [declared, list] : kDeclared) {
      const auto found = schema.find(declared);
      if (found == schema.end()) continue;
      for (const auto& [key, of_key] : found->items()) keys[list].push_back(key);
    }
    wanted(keys, negated(checked(value), where, depth + 1));
  } else if (keyword == "patternProperties" && value.is_object()) {
    for (const auto& [regex, of_keys] : value.items()) {
      wanted({{"pattern", regex}}, negated(checked(of_keys), where, depth + 1));
    }
  } else if (keyword == "propertyNames") {
    wanted({{"unlike", checked(value)}}, document_.made(true, where));
  } else {
    return false;
  }
  return true;
}

// Adds the schemas of arrays with an element that breaks "items", or without one for "contains".
// False where the keyword is another one.
bool SchemaReader::add_broken_elements(const std::string& keyword, const Json& value,
                                       const Json& schema, const Json& where, int depth,
                                       Choice* ways) {
  const bool are_items = keyword == "items" && !value.is_array() && !schema.contains("prefixItems");
  const bool is_contains = keyword == "contains" && !schema.contains("minContains");
  if (!are_items && !is_contains) return false;
  const Json& no = negated(checked(value), where, depth + 1);
  const char* const other = are_items ? "contains" : "items";
  const Json& way = document_.made({{"type", "array"}, {other, Json::object()}}, where);
  groups_[&way[other]] = {false, {&no}};
  ways->push_back(&way);
  return true;
}

// Adds the schemas of objects that have a key, though not what depends on it. False where the
// keyword is another one.
bool SchemaReader::add_broken_dependencies(const std::string& keyword, const Json& value,
                                           const Json& where, int depth, Choice* ways) {
  constexpr const char* kKeywords[] = {"dependencies", "dependentRequired", "dependentSchemas"};
  const auto is = [&](const char* name) { return keyword == name; };
  if (std::none_of(std::begin(kKeywords), std::end(kKeywords), is) || !value.is_object()) {
    return false;
  }
  for (const auto& [key, then] : value.items()) {
    const Json present = {{"type", "object"}, {"required", Json::array({key})}};
    if (!then.is_array()) {
      const Json& no = negated(checked(then), where, depth + 1);
      ways->push_back(&group(false, {&document_.made(present, where), &no}, where));
      continue;
    }
    for (const Json& other : then) {
      if (!other.is_string()) return false;
      Json way = present;
      way["properties"] = {{other.get<std::string>(), false}};
      ways->push_back(&document_.made(std::move(way), where));
    }
  }
  return true;
}

// Adds the schemas of values that none of these schemas accepts, or two of them.
void SchemaReader::add_none_or_two(const Choice& of, const Json& where, int depth, Choice* ways) {
  Choice none;
  for (const Json* one : of) none.push_back(&negated(*one, where, depth + 1));
  ways->push_back(&group(false, none, where));
  for (size_t i = 0; i < of.size(); ++i) {
    for (size_t j = i + 1; j < of.size(); ++j) {
      if (!are_disjoint(*of[i], *of[j], 0)) {
        ways->push_back(&group(false, {of[i], of[j]}, where));
      }
    }
  }
}

// Adds the schemas of values that break what other schemas say together about the same value. False
// where the keyword is another one.
bool SchemaReader::add_broken_parts(const std::string& keyword, const Json& schema,
                                    const Json& where, int depth, Choice* ways) {
  if (keyword == "$ref" && schema["$ref"].is_string()) {
    const Json& target = document_.target(schema, schema["$ref"].get<std::string>());
    ways->push_back(&negated(target, where, depth + 1));
  } else if (keyword == "oneOf") {
    add_none_or_two(list_of(schema, "oneOf"), where, depth, ways);
  } else if (keyword == "anyOf" || keyword == "allOf") {
    Choice parts;
    for (const Json* part : list_of(schema, keyword.c_str())) {
      parts.push_back(&negated(*part, where, depth + 1));
    }
    if (keyword == "anyOf") {
      ways->push_back(&group(false, parts, where));
    } else {
      ways->insert(ways->end(), parts.begin(), parts.end());
    }
  } else {
    return false;
  }
  return true;
}

// Returns a choice between schemas, each of which breaks one keyword of `given`.
const Json& SchemaReader::negated(const Json& given, const Json& where, int depth) {
  const auto [known, is_new] = negated_.try_emplace(&given, nullptr);
  if (!is_new && known->second != nullptr) return *known->second;
  const Json& schema = checked(*resolved(given));
  const auto refuse = [&](const std::string& why) { document_.refuse(where, "not", why); };
  if (depth > kMostDepth || !is_new) refuse("this schema contains itself or is too deep");
  const auto made = [&](Json json) -> const Json& {
    return document_.made(std::move(json), where);
  };
  if (schema.is_boolean()) {
    return *(negated_[&given] = &made(!schema.get<bool>()));
  }
  Choice ways;
  for (const auto& [keyword, value] : schema.items()) {
    if (keyword == "type") {
      const uint8_t types = types_of(schema, document_);
      ways.push_back(&made({{"type", names_of(static_cast<uint8_t>(kEvery & ~types))}}));
    } else if (keyword == "const") {
      ways.push_back(&made({{kNotValues, Json::array({value})}}));
    } else if (keyword == "enum" && value.is_array()) {
      ways.push_back(&made({{kNotValues, value}}));
    } else if (keyword == "not") {
      ways.push_back(&checked(value));
    } else if (keyword == "pattern") {
      ways.push_back(&made({{"type", "string"}, {kNotPattern, value}}));
    } else if (const Json* const other = with_other_bound(keyword, value, where)) {
      ways.push_back(other);
    } else if (keyword == "required" && value.is_array()) {
      for (const Json& key : value) {
        if (!key.is_string()) refuse("'required' names keys");
        ways.push_back(
            &made({{"type", "object"}, {"properties", {{key.get<std::string>(), false}}}}));
      }
    } else if (keyword == "properties" && value.is_object()) {
      add_broken_properties(value, where, depth, &ways);
    } else if (keyword == "format") {
      if (formats_bind_) ways.push_back(&made({{"type", "string"}, {kNotFormat, value}}));
    } else if (!add_broken_parts(keyword, schema, where, depth, &ways) &&
               !add_broken_members(keyword, value, schema, where, depth, &ways) &&
               !add_broken_elements(keyword, value, schema, where, depth, &ways) &&
               !add_broken_dependencies(keyword, value, where, depth, &ways)) {
      const auto is = [&, k = keyword](const char* name) { return k == name; };
      if (std::any_of(std::begin(kBinding), std::end(kBinding), is)) {
        refuse(fmt::format("'not' of '{}' is not supported", keyword));
      }
    }
  }
  const Json& no = ways.empty() ? made(false) : group(true, ways, where);
  return *(negated_[&given] = &no);
}

uint8_t SchemaReader::possible_types(const Json& given, int depth) const {
  pool_.count_step();
  const Json& schema = *resolved(given);
  if (schema.is_boolean()) return schema.get<bool>() ? kEvery : 0;
  if (!schema.is_object() || depth > kMostDepth) return kEvery;
  uint8_t types = kEvery;
  if (schema.contains("type")) types &= types_of(schema, document_);
  if (schema.contains("const")) types &= type_of(schema["const"]);
  if (schema.contains("enum")) {
    uint8_t of_values = 0;
    count_compared(schema["enum"].size());
    for (const Json& value : schema["enum"]) of_values |= type_of(value);
    types &= of_values;
  }
  for (const char* const keyword : {"anyOf", "oneOf"}) {
    if (!schema.contains(keyword)) continue;
    uint8_t of_ways = 0;
    for (const Json* way : list_of(schema, keyword)) of_ways |= possible_types(*way, depth + 1);
    types &= of_ways;
  }
  return types;
}

// Returns true only where it is certain that no value fits both schemas.
bool SchemaReader::are_disjoint(const Json& a_given, const Json& b_given, int depth) const {
  pool_.count_step();
  const Json &a = *resolved(a_given), &b = *resolved(b_given);
  const auto common = static_cast<uint8_t>(possible_types(a, 0) & possible_types(b, 0));
  if (common == 0) return true;
  if (depth > kMostDepth || !a.is_object() || !b.is_object()) return false;
  const auto values = [](const Json& schema) -> std::optional<std::vector<Json>> {
    if (schema.contains("const")) return std::vector<Json>{schema["const"]};
    if (schema.contains("enum") && schema["enum"].is_array()) {
      return schema["enum"].get<std::vector<Json>>();
    }
    return std::nullopt;
  };
  const auto of_a = values(a), of_b = values(b);
  if (of_a && of_b) {
    count_compared(of_a->size() * of_b->size());
    const auto is_common = [&](const Json& x) {
      return std::any_of(of_b->begin(), of_b->end(), [&](const Json& y) { return is_same(x, y); });
    };
    return std::none_of(of_a->begin(), of_a->end(), is_common);
  }
  if (common != kObject) return false;
  // Both schemas may require a key whose value cannot fit both.
  const auto requires_key = [&](const Json& schema, const std::string& key) {
    const auto required = schema.find("required");
    if (required == schema.end() || !required->is_array()) return false;
    count_compared(required->size());
    return std::find(required->begin(), required->end(), key) != required->end();
  };
  if (!a.contains("properties") || !b.contains("properties")) return false;
  const Json &in_a = a["properties"], &in_b = b["properties"];
  if (!in_a.is_object() || !in_b.is_object()) return false;
  for (const auto& [key, value] : in_a.items()) {
    count_compared(in_b.size());
    const auto other = in_b.find(key);
    if (other == in_b.end() || !requires_key(a, key) || !requires_key(b, key)) continue;
    if (are_disjoint(value, *other, depth + 1)) return true;
  }
  return false;
}

}  // namespace troika::grammar::schema
