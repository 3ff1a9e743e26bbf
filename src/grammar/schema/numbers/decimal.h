// Numbers of schemas as decimals, so that nothing is rounded.
#pragma once

#include <string>

#include "grammar/schema/constraints.h"
#include "grammar/schema/document/document.h"

namespace troika::grammar::schema {

// A decimal number: its sign and its digits in front of the point and behind it, without needless
// zeros.
struct Decimal {
  bool is_negative = false;
  std::string whole = "0", part;
  bool is_zero() const { return whole == "0" && part.empty(); }
};

// Returns the number with the fewest digits that the value means. Throws Error for a number that
// needs more than some tens of digits, whose place is `where`.
Decimal decimal_of(const Json& value, const Document& document, const Json& where);

// The last number within a bound, or the first one outside it.
struct Edge {
  Decimal number;
  bool is_open = false;  // says that the number itself does not fit
};

// Returns where the numbers of a bound end. Readers with doubles take decimals close to an excluded
// number for that number, so those end at the next double. Throws as decimal_of() does.
Edge edge_of(const Bound& bound, bool is_upper, const Document& document, const Json& where);

// Compares the numbers without their signs: below 0 if `a` is smaller, 0 if they are equal.
int compare_magnitudes(const Decimal& a, const Decimal& b);

// Says whether the first number is a multiple of the second, which is above 0.
bool is_multiple(const Decimal& number, const Decimal& of);

}  // namespace troika::grammar::schema
