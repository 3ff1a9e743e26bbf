#include "grammar/schema/constraints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace troika::grammar::schema {
namespace {

// Lists the keywords that are refused: a grammar cannot enforce them, or this reader does not know
// how.
constexpr const char* kRefused[] = {"extends", "disallow", "divisibleBy"};

constexpr const char* kArrayKeywords[] = {"items",    "prefixItems", "additionalItems",
                                          "contains", "uniqueItems", "unevaluatedItems"};
constexpr const char* kObjectKeywords[] = {"properties", "patternProperties",
                                           "additionalProperties", "unevaluatedProperties"};

template <size_t N>
bool has_any(const Json& schema, const char* const (&keywords)[N]) {
  return std::any_of(std::begin(keywords), std::end(keywords),
                     [&](const char* keyword) { return schema.contains(keyword); });
}

void check_supported(const Json& schema, const Document& document) {
  for (const char* const keyword : kRefused) {
    if (schema.contains(keyword)) document.refuse(schema, keyword, "this is not supported");
  }
  if (schema.contains("$id") && !document.is_addressed(schema)) {
    document.refuse(schema, "$id", "an address is not read here, where no schema is expected");
  }
}

void add_bound(const Json& schema, const char* keyword, bool is_open, const Document& document,
               std::vector<Bound>* to) {
  const auto found = schema.find(keyword);
  if (found == schema.end()) return;
  if (!found->is_number()) document.refuse(schema, keyword, "a number is expected");
  to->push_back({*found, is_open});
}

void add_count(const Json& schema, const char* least, const char* most, const Document& document,
               uint64_t* min, std::optional<uint64_t>* max) {
  if (schema.contains(least)) *min = std::max(*min, count_of(schema, least, document));
  if (!schema.contains(most)) return;
  const uint64_t n = count_of(schema, most, document);
  *max = max->has_value() ? std::min(**max, n) : n;
}

void add_values(const Json& schema, const Document& document, const CountCompared& count,
                Constraints* to) {
  const auto restrict_to = [&](const std::vector<const Json*>& values) {
    if (!to->values) {
      to->values = values;
      return;
    }
    std::vector<const Json*> kept;
    for (const Json* const value : values) {
      count(to->values->size());
      const auto is_it = [&](const Json* other) { return is_same(*value, *other, count); };
      if (std::any_of(to->values->begin(), to->values->end(), is_it)) kept.push_back(value);
    }
    to->values = kept;
  };
  if (schema.contains("const")) restrict_to({&schema["const"]});
  if (!schema.contains("enum")) return;
  const Json& named = schema["enum"];
  if (!named.is_array()) document.refuse(schema, "enum", "a list is expected");
  count(named.size());
  std::vector<const Json*> values;
  for (const Json& value : named) values.push_back(&value);
  restrict_to(values);
}

void add_required(const Json& schema, const Document& document, Constraints* to) {
  const auto found = schema.find("required");
  if (found == schema.end()) return;
  if (!found->is_array()) document.refuse(schema, "required", "a list of keys is expected");
  for (const Json& key : *found) {
    if (!key.is_string()) document.refuse(schema, "required", "a list of keys is expected");
    const auto name = key.get<std::string>();
    if (to->required_set.insert(name).second) to->required.push_back(name);
  }
}

}  // namespace

uint8_t type_of(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_string()) return kString;
  if (value.is_array()) return kArray;
  if (value.is_object()) return kObject;
  if (!value.is_number_float()) return kInteger;
  const double number = value.get<double>();
  return std::floor(number) == number ? kInteger : kFraction;
}

bool is_same(const Json& a, const Json& b, const CountCompared& count) {
  if (a.is_number() && b.is_number()) return !is_less(a, b) && !is_less(b, a);
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_structured() && count) count(a.size());
  if (a.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(), [&](const Json& one, const Json& other) {
      return is_same(one, other, count);
    });
  }
  if (!a.is_object()) return a == b;
  const auto items = a.items();
  return std::all_of(items.begin(), items.end(), [&](const auto& item) {
    const auto other = b.find(item.key());
    return other != b.end() && is_same(item.value(), *other, count);
  });
}

// The reader of JSON has integers with a sign and without one, and compares the bits of both.
bool is_less(const Json& a, const Json& b) {
  if (!a.is_number_integer() || !b.is_number_integer()) return a < b;
  const auto is_negative = [](const Json& n) {
    return !n.is_number_unsigned() && n.get<int64_t>() < 0;
  };
  if (is_negative(a) || is_negative(b)) {
    return is_negative(a) && (!is_negative(b) || a.get<int64_t>() < b.get<int64_t>());
  }
  return a.get<uint64_t>() < b.get<uint64_t>();
}

uint64_t count_of(const Json& schema, const std::string& keyword, const Document& document) {
  const Json& value = schema[keyword];
  if (!value.is_number() || type_of(value) != kInteger || value.get<double>() < 0 ||
      value.get<double>() > kMostCount) {
    document.refuse(schema, keyword, "a number from 0 on is expected");
  }
  return static_cast<uint64_t>(value.get<double>());
}

uint8_t types_of(const Json& schema, const Document& document) {
  const Json& type = schema["type"];
  constexpr std::pair<const char*, uint8_t> kTypes[] = {
      {"null", kNull},     {"boolean", kBoolean}, {"integer", kInteger}, {"number", kNumber},
      {"string", kString}, {"array", kArray},     {"object", kObject},   {kFractions, kFraction}};
  uint8_t types = 0;
  const auto add = [&](const Json& name) {
    const auto* const found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                           [&](const auto& t) { return name == t.first; });
    if (found == std::end(kTypes)) {
      document.refuse(schema, "type", fmt::format("there is no type {}", name.dump()));
    }
    types |= found->second;
  };
  if (type.is_array()) {
    for (const Json& name : type) add(name);
  } else {
    add(type);
  }
  // Descriptions of interfaces (OpenAPI 3.0) say so that there may be nothing.
  const auto may_be_null = schema.find("nullable");
  if (may_be_null == schema.end()) return types;
  if (!may_be_null->is_boolean()) document.refuse(schema, "nullable", "true or false is expected");
  return may_be_null->get<bool>() ? types | kNull : types;
}

void add_keywords(const Json& schema, const Document& document, const CountCompared& count,
                  Constraints* to) {
  check_supported(schema, document);
  if (to->origin == nullptr) to->origin = &schema;
  if (schema.contains("type")) to->types &= types_of(schema, document);
  add_bound(schema, "minimum", false, document, &to->least);
  add_bound(schema, "exclusiveMinimum", true, document, &to->least);
  add_bound(schema, "maximum", false, document, &to->most);
  add_bound(schema, "exclusiveMaximum", true, document, &to->most);
  for (const char* const keyword : {"multipleOf", kNotMultipleOf}) {
    const auto of = schema.find(keyword);
    if (of == schema.end()) continue;
    if (!of->is_number() || of->get<double>() <= 0) {
      document.refuse(schema, "multipleOf", "a number above 0 is expected");
    }
    (keyword == kNotMultipleOf ? to->not_multiples : to->multiples).push_back(*of);
  }
  add_count(schema, "minLength", "maxLength", document, &to->min_length, &to->max_length);
  add_count(schema, "minItems", "maxItems", document, &to->min_items, &to->max_items);
  add_count(schema, "minProperties", "maxProperties", document, &to->min_properties,
            &to->max_properties);
  constexpr const char* kStringKeywords[] = {"pattern", "format", kNotPattern, kNotFormat};
  if (has_any(schema, kStringKeywords)) {
    to->strings.push_back(&schema);
  }
  if (has_any(schema, kArrayKeywords)) to->arrays.push_back(&schema);
  if (has_any(schema, kObjectKeywords)) to->objects.push_back(&schema);
  if (schema.contains(kWanted)) to->wanted.push_back(&schema[kWanted]);
  if (schema.contains("propertyNames")) to->names.push_back(&schema["propertyNames"]);
  add_required(schema, document, to);
  add_values(schema, document, count, to);
  if (!schema.contains(kNotValues)) return;
  for (const Json& value : schema[kNotValues]) {
    to->not_values.push_back(&value);
    if (value.is_null()) to->types &= static_cast<uint8_t>(~kNull);
  }
}

}  // namespace troika::grammar::schema
