// Makes the schema of all values that another schema does not accept.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema/schema_reader.h"

namespace troika::grammar::schema {
namespace {

// Lists the keywords that say something about values, though not in every form what can be turned
// round.
constexpr const char* kBinding[] = {"additionalItems",   "contains",
                                    "dependencies",      "disallow",
                                    "dependentSchemas",  "dependentRequired",
                                    "divisibleBy",       "enum",
                                    "extends",           "items",
                                    "maxItems",          "maxLength",
                                    "maxProperties",     "minItems",
                                    "minLength",         "minProperties",
                                    "prefixItems",       "properties",
                                    "patternProperties", "required",
                                    "unevaluatedItems",  "unevaluatedProperties",
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

// Returns the schema of values that break a keyword which counts, or null if the keyword does not
// count.
const Json* SchemaReader::with_other_count(const std::string& keyword, const Json& value,
                                           const Json& where) {
  constexpr const char* kCounts[][3] = {{"minLength", "maxLength", "string"},
                                        {"minItems", "maxItems", "array"},
                                        {"minProperties", "maxProperties", "object"}};
  const double number = value.is_number_integer() ? value.get<double>() : -1.0;
  if (number < 0 || number > kMostCount) return nullptr;
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
    wanted({{"unlike", Json::object()}}, document_.made(true, where));
    groups_[&(*ways->back())[kWanted]["unlike"]] = {false, {&checked(value)}};
  } else {
    return false;
  }
  return true;
}

// Adds the schemas of arrays with an element that breaks what a keyword asks of it, or with too few
// or too many for "contains". False where the keyword is another one.
bool SchemaReader::add_broken_elements(const std::string& keyword, const Json& value,
                                       const Json& schema, const Json& where, int depth,
                                       Choice* ways) {
  const auto add = [&](Json keywords, const char* key, const Json& of_elements) {
    keywords["type"] = "array";
    keywords[key] = Json::object();
    const Json& way = document_.made(std::move(keywords), where);
    groups_[&way[key]] = {false, {&of_elements}};
    ways->push_back(&way);
  };
  const auto broken = [&](const Json& of) -> const Json& {
    return negated(checked(of), where, depth + 1);
  };
  if (keyword == "prefixItems" || (keyword == "items" && value.is_array())) {
    for (size_t i = 0; i < value.size() && value.is_array(); ++i) {
      Json first = Json::array();
      for (size_t j = 0; j <= i; ++j) first.push_back(Json::object());
      const Json& way = document_.made(
          {{"type", "array"}, {"minItems", i + 1}, {"prefixItems", std::move(first)}}, where);
      groups_[&way["prefixItems"][i]] = {false, {&broken(value[i])}};
      ways->push_back(&way);
    }
    return value.is_array();
  }
  if (keyword == "items" && !schema.contains("prefixItems")) {
    add(Json::object(), "contains", broken(value));
    return true;
  }
  if (keyword != "contains") return keyword == "minContains" || keyword == "maxContains";
  const bool has_most = schema.contains("maxContains");
  const uint64_t least =
      schema.contains("minContains") ? count_of(schema, "minContains", document_) : 1;
  if (least == 1 && !has_most) {
    add(Json::object(), "items", broken(value));
    return true;
  }
  if (least > 0) add({{"minContains", 0}, {"maxContains", least - 1}}, "contains", checked(value));
  if (!has_most) return true;
  const uint64_t most = count_of(schema, "maxContains", document_);
  add({{"minContains", most + 1}}, "contains", checked(value));
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
  if (keyword == "$ref" || keyword == "$dynamicRef" || keyword == "$recursiveRef") {
    ways->push_back(&negated(document_.target(schema, keyword), where, depth + 1));
  } else if (keyword == "oneOf") {
    add_none_or_two(list_of(schema, "oneOf"), where, depth, ways);
  } else if (keyword == "if") {
    const Json& condition = checked(schema["if"]);
    for (const char* const then : {"then", "else"}) {
      if (!schema.contains(then)) continue;
      const bool is_then = std::string_view(then) == "then";
      const Json& holds = is_then ? condition : negated(condition, where, depth + 1);
      const Json& broken = negated(checked(schema[then]), where, depth + 1);
      ways->push_back(&group(false, {&holds, &broken}, where));
    }
  } else if (keyword == "then" || keyword == "else") {
    return true;  // they are read with "if", and mean nothing without it
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

// Negates a schema that stands for others: none of them fits, or one does not.
const Json& SchemaReader::negated_group(const Json& schema, const Json& where, int depth) {
  const auto [is_any, parts] = groups_.at(&schema);
  Choice broken;
  for (const Json* part : parts) broken.push_back(&negated(*part, where, depth + 1));
  return group(!is_any, broken, where);
}

// Returns a choice between schemas, each of which breaks one keyword of `given`. A schema may
// contain itself, though not for the same value: the choice is known before its ways are.
const Json& SchemaReader::negated(const Json& given, const Json& where, int depth) {
  const Json& schema = checked(*resolved(given));
  const auto known = negated_.find(&schema);
  if (known != negated_.end()) return *known->second;
  const auto refuse = [&](const std::string& why) { document_.refuse(where, "not", why); };
  if (depth > kMostDepth || leads_to_itself(schema)) {
    refuse("this schema leads to itself for the same value or is too deep");
  }
  const auto made = [&](Json json) -> const Json& {
    return document_.made(std::move(json), where);
  };
  if (schema.is_boolean()) {
    return *(negated_[&schema] = &made(!schema.get<bool>()));
  }
  if (groups_.count(&schema) > 0) {
    return *(negated_[&schema] = &negated_group(schema, where, depth));
  }
  const Json& no = made(Json::object());
  groups_[&no] = {true, {}};
  negated_[&schema] = &no;
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
    } else if (keyword == "multipleOf") {
      ways.push_back(&made({{"type", "number"}, {kNotMultipleOf, value}}));
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
  groups_[&no].second = ways;
  return no;
}

}  // namespace troika::grammar::schema
