// Makes the schema of all values that another schema does not accept, and says whether two schemas
// accept no value in common.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema/schema_reader.h"

namespace troika::grammar::schema {
namespace {

constexpr int kMostDepth = 16;

// Keywords that say nothing about values.
constexpr const char* kRemarks[] = {"title",    "description", "default",  "examples",
                                    "$comment", "deprecated",  "readOnly", "writeOnly",
                                    "$defs",    "definitions", "$schema",  "$id"};

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
    const auto is = [&, k = keyword](const char* name) { return k == name; };
    if (std::any_of(std::begin(kRemarks), std::end(kRemarks), is)) continue;
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
    } else if (keyword == "anyOf" || keyword == "allOf") {
      Choice parts;
      for (const Json* part : list_of(schema, keyword.c_str())) {
        parts.push_back(&negated(*part, where, depth + 1));
      }
      if (keyword == "anyOf") {
        ways.push_back(&group(false, parts, where));
      } else {
        ways.insert(ways.end(), parts.begin(), parts.end());
      }
    } else {
      refuse(fmt::format("'not' of '{}' is not supported", keyword));
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
