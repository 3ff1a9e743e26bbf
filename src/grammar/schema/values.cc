// Makes expressions of values that are named, as "const" and "enum" do.
#include <algorithm>

#include "grammar/schema/numbers/decimal.h"
#include "grammar/schema/schema_reader.h"

namespace troika::grammar::schema {

Expr SchemaReader::one_of_values(const Constraints& c) {
  std::vector<Expr> ways;
  std::optional<Expr> inside;
  for (const Json* const value : *c.values) {
    if (fits(*value, c, &inside)) ways.push_back(value_text(*value));
  }
  return pool_.any(ways);
}

// Writes a value once: many schemas may lead to the same large one.
Expr SchemaReader::value_text(const Json& value) {
  const auto known = value_texts_.find(&value);
  if (known != value_texts_.end()) return known->second;
  const Expr e = text_.value(value);
  value_texts_.emplace(&value, e);
  return e;
}

// Says whether a value of an enumeration fits the other constraints. `inside` is what they leave
// between the quotes of a text; the first text finds it out, and the next ones know it.
bool SchemaReader::fits(const Json& value, const Constraints& c, std::optional<Expr>* inside) {
  const uint8_t type = type_of(value);
  if ((c.types & type) == 0) return false;
  count_compared(c.not_values.size());
  const auto is_out = [&](const Json* other) { return is_same_counted(value, *other); };
  if (std::any_of(c.not_values.begin(), c.not_values.end(), is_out)) return false;
  if ((type & kNumber) != 0) {
    for (const Bound& b : c.least) {
      if (is_less(value, b.value) || (b.is_open && is_same(value, b.value))) return false;
    }
    for (const Bound& b : c.most) {
      if (is_less(b.value, value) || (b.is_open && is_same(value, b.value))) return false;
    }
    const auto divides = [&](const Json& of) {
      return is_multiple(decimal_of(value, document_, *c.origin),
                         decimal_of(of, document_, *c.origin));
    };
    if (!std::all_of(c.multiples.begin(), c.multiples.end(), divides)) return false;
    if (std::any_of(c.not_multiples.begin(), c.not_multiples.end(), divides)) return false;
  }
  if (type == kString) {
    if (!*inside) *inside = string_inside(c);
    return accepts(**inside, value.get<std::string>());
  }
  if (type == kArray && (!c.arrays.empty() || c.min_items > 0 || c.max_items)) {
    document_.refuse(*c.origin, "",
                     "arrays that are named, and keywords for arrays beside them, "
                     "are not supported");
  }
  if (type == kObject && (!c.objects.empty() || !c.required.empty() || !c.names.empty() ||
                          !c.wanted.empty() || c.min_properties > 0 || c.max_properties)) {
    document_.refuse(*c.origin, "",
                     "objects that are named, and keywords for objects beside them, "
                     "are not supported");
  }
  return true;
}

}  // namespace troika::grammar::schema
