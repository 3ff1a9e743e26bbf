// What several schemas say together about one value, brought together from their keywords.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "grammar/schema/document.h"

namespace troika::grammar::schema {

enum Type : uint8_t {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,   // numbers without a fraction
  kFraction = 8,  // all others
  kString = 16,
  kArray = 32,
  kObject = 64,
  kNumber = kInteger | kFraction,
  kEvery = 127
};

// Schemas that one value must fit, all of them.
using Schemas = std::set<const Json*>;

struct Bound {
  Json value;
  bool is_open = false;  // the value itself is out
};

struct Constraints {
  uint8_t types = kEvery;
  std::vector<Bound> least, most;  // of numbers
  std::vector<Json> multiples;     // numbers are multiples of all of these
  uint64_t min_length = 0, min_items = 0, min_properties = 0;
  std::optional<uint64_t> max_length, max_items, max_properties;
  std::vector<const Json*> strings;  // schemas with "pattern" or "format"
  std::vector<const Json*> arrays;   // schemas with keywords of arrays
  std::vector<const Json*> objects;  // schemas with keywords of objects
  std::vector<const Json*> names;    // what keys must fit
  std::vector<std::string> required;
  std::optional<std::vector<Json>> values;  // one of these
  std::vector<Json> not_values;             // none of these
  const Json* origin = nullptr;             // for errors
};

// Adds the keywords of one schema but for those that lead to other schemas for the same value.
// Throws Error for what is not supported.
void add_keywords(const Json& schema, const Document& document, Constraints* to);

// What negated schemas say with "pattern" that must not be found.
inline constexpr const char* kNotPattern = "$notPattern";
// What negated schemas say with "enum": values that must not be there.
inline constexpr const char* kNotValues = "$notValues";
// Among the types of negated schemas: numbers that are no integers.
inline constexpr const char* kFractions = "$fraction";

uint8_t type_of(const Json& value);
// Whether they are the same value: 1 and 1.0 are.
bool is_same(const Json& a, const Json& b);
// An integer that is not negative. Throws Error.
uint64_t count_of(const Json& schema, const std::string& keyword, const Document& document);
// The types that the keyword "type" names. Throws Error.
uint8_t types_of(const Json& schema, const Document& document);

}  // namespace troika::grammar::schema
