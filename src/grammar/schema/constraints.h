// Gathers from the keywords of several schemas what they say together about one value.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "grammar/schema/document/document.h"

namespace troika::grammar::schema {

enum Type : uint8_t {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,   // numbers without a fraction
  kFraction = 8,  // all other numbers
  kString = 16,
  kArray = 32,
  kObject = 64,
  kNumber = kInteger | kFraction,
  kEvery = 127
};

// A set of schemas, all of which one value must fit.
using Schemas = std::set<const Json*>;

struct Bound {
  Json value;
  bool is_open = false;  // says that the value itself does not fit
};

struct Constraints {
  uint8_t types = kEvery;
  std::vector<Bound> least, most;   // bounds of numbers
  std::vector<Json> multiples;      // numbers are multiples of all of these
  std::vector<Json> not_multiples;  // numbers are multiples of none of these
  uint64_t min_length = 0, min_items = 0, min_properties = 0;
  std::optional<uint64_t> max_length, max_items, max_properties;
  std::vector<const Json*> strings;  // schemas with "pattern" or "format"
  std::vector<const Json*> arrays;   // schemas that have keywords for arrays
  std::vector<const Json*> objects;  // schemas that have keywords for objects
  // Schemas with "unevaluatedProperties" or "unevaluatedItems": those that were looked at before.
  std::map<const Json*, std::vector<const Json*>> evaluated;
  std::vector<const Json*> names;      // schemas that keys must fit
  std::vector<const Json*> wanted;     // members of which one must be there, as kWanted has it
  std::vector<std::string> required;   // keys in the order of the schemas
  std::set<std::string> required_set;  // the same keys
  std::optional<std::vector<const Json*>> values;  // if given, the value must be one of these
  std::vector<const Json*> not_values;             // the value must be none of these
  const Json* origin = nullptr;                    // the schema that errors name
};

// Is told how many values, keys or bytes are compared.
using CountCompared = std::function<void(size_t n)>;

// Adds the keywords of one schema, except for those that lead to further schemas for the same
// value. Throws Error for a keyword that is not supported.
void add_keywords(const Json& schema, const Document& document, const CountCompared& count,
                  Constraints* to);

// What follows are names that negated schemas use among themselves. Each begins with the byte 255,
// which no text of JSON can hold, because it is never part of a character in UTF-8. So what a user
// writes is not mistaken for one of them.

// Is the keyword with which negated schemas name a pattern that must not be found.
inline constexpr const char* kNotPattern = "\377notPattern";
// Is the keyword with which negated schemas name a format that a text must not have.
inline constexpr const char* kNotFormat = "\377notFormat";
// Is the keyword with which negated schemas name a number of which numbers must not be multiples.
inline constexpr const char* kNotMultipleOf = "\377notMultipleOf";
// Is the keyword with which negated schemas list values that are not allowed.
inline constexpr const char* kNotValues = "\377notValues";
// Is the keyword with which negated schemas ask for a member: with a key that is none of "names"
// and fits none of "patterns", or fits "pattern", or not the schema "unlike"; its value fits
// "value".
inline constexpr const char* kWanted = "\377wanted";
// Is the type that negated schemas write for numbers that are no integers.
inline constexpr const char* kFractions = "\377fraction";

uint8_t type_of(const Json& value);
// Says whether two texts of JSON mean the same value, as 1 and 1.0 do.
bool is_same(const Json& a, const Json& b, const CountCompared& count = {});
// Says whether a number is less than another one.
bool is_less(const Json& a, const Json& b);
// Is the greatest number that something is counted up to.
inline constexpr double kMostCount = 1e15;
// Returns the keyword's value, an integer that is not negative. Throws Error for other values.
uint64_t count_of(const Json& schema, const std::string& keyword, const Document& document);
// Returns the types that the keyword "type" names, and null where "nullable" is beside it. Throws
// Error.
uint8_t types_of(const Json& schema, const Document& document);

}  // namespace troika::grammar::schema
