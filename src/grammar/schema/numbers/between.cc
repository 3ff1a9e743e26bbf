// Makes expressions of numbers between bounds.
#include "grammar/schema/json_text.h"
#include "grammar/schema/numbers/decimal.h"
#include "grammar/schema/numbers/multiples.h"

namespace troika::grammar::schema {

Expr JsonText::digit(int first, int last) {
  return pool_.bytes(ByteSet::range('0' + first, '0' + last));
}

Expr JsonText::digits(int least) { return pool_.repeat(digit(0, 9), least, Pool::kMany); }

// Returns a fraction, a point and digits, which may also be missing.
Expr JsonText::fraction(int least_digits) {
  return pool_.optional(pool_.literal(".", digits(least_digits)));
}

Expr JsonText::whole() {
  return pool_.any(pool_.literal("0"), pool_.concat(digit(1, 9), digits()));
}

Expr JsonText::number_value(const Json& value) {
  std::string text = value.dump();
  if (value.is_number_float() && type_of(value) == kInteger) {
    if (text.find('e') == std::string::npos) text.erase(text.find('.'));
    if (text == "-0") text = "0";  // is the same number
  }
  return pool_.literal(text);
}

Expr JsonText::magnitude_above(const Edge& edge) {
  const std::string &whole = edge.number.whole, &part = edge.number.part;
  const bool is_open = edge.is_open;
  std::vector<Expr> ways;
  // A greater number has more digits, or as many and the first digit that differs is greater.
  const auto n = static_cast<int>(whole.size());
  ways.push_back(pool_.concat(pool_.concat(digit(1, 9), digits(n)), fraction()));
  if (whole == "0") ways.push_back(pool_.concat(pool_.concat(digit(1, 9), digits()), fraction()));
  for (size_t i = 0; i < whole.size() && whole != "0"; ++i) {
    if (whole[i] == '9') continue;
    const int rest = static_cast<int>(whole.size() - i) - 1;
    const Expr tail = pool_.concat(pool_.repeat(digit(0, 9), rest, rest), fraction());
    ways.push_back(
        pool_.literal(whole.substr(0, i), pool_.concat(digit(whole[i] - '0' + 1, 9), tail)));
  }
  // In front of the point, numbers may have no needless zeros.
  const Expr more =
      pool_.concat(pool_.star(pool_.literal("0")), pool_.concat(digit(1, 9), digits()));
  if (part.empty()) {
    ways.push_back(pool_.literal(whole, is_open ? pool_.literal(".", more) : fraction()));
    return pool_.any(ways);
  }
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '9') continue;
    const Expr tail = pool_.concat(digit(part[i] - '0' + 1, 9), digits());
    ways.push_back(pool_.literal(whole + "." + part.substr(0, i), tail));
  }
  ways.push_back(pool_.literal(whole + "." + part, is_open ? more : digits()));
  return pool_.any(ways);
}

Expr JsonText::magnitude_below(const Edge& edge) {
  const std::string &whole = edge.number.whole, &part = edge.number.part;
  const bool is_open = edge.is_open;
  std::vector<Expr> ways;
  const auto n = static_cast<int>(whole.size());
  if (whole != "0") {
    ways.push_back(pool_.literal("0", fraction()));
    if (n > 1) {
      const Expr fewer = pool_.concat(digit(1, 9), pool_.repeat(digit(0, 9), 0, n - 2));
      ways.push_back(pool_.concat(fewer, fraction()));
    }
  }
  for (size_t i = 0; i < whole.size() && whole != "0"; ++i) {
    const int least = i == 0 ? 1 : 0;
    if (whole[i] - '0' <= least) continue;
    const int rest = static_cast<int>(whole.size() - i) - 1;
    const Expr tail = pool_.concat(pool_.repeat(digit(0, 9), rest, rest), fraction());
    ways.push_back(
        pool_.literal(whole.substr(0, i), pool_.concat(digit(least, whole[i] - '0' - 1), tail)));
  }
  const Expr zeros = pool_.star(pool_.literal("0"));
  if (part.empty()) {
    const Expr zero = pool_.literal(".", pool_.concat(pool_.literal("0"), zeros));
    if (!is_open) ways.push_back(pool_.literal(whole, pool_.optional(zero)));
    return pool_.any(ways);
  }
  ways.push_back(pool_.literal(whole));
  for (size_t i = 0; i < part.size(); ++i) {
    const std::string before = whole + "." + part.substr(0, i);
    if (i > 0) ways.push_back(pool_.literal(before));
    if (part[i] == '0') continue;
    ways.push_back(pool_.literal(before, pool_.concat(digit(0, part[i] - '0' - 1), digits())));
  }
  if (!is_open) ways.push_back(pool_.literal(whole + "." + part, zeros));
  return pool_.any(ways);
}

Expr JsonText::at_least(const Bound& bound, const Document& document, const Json& where) {
  const Edge edge = edge_of(bound, false, document, where);
  const Expr positive = pool_.concat(whole(), fraction());
  if (edge.number.is_negative) {
    return pool_.any(positive, pool_.literal("-", magnitude_below(edge)));
  }
  if (!edge.number.is_zero() || edge.is_open) return magnitude_above(edge);
  return pool_.any(positive, pool_.literal("-", magnitude_below({})));
}

Expr JsonText::at_most(const Bound& bound, const Document& document, const Json& where) {
  const Edge edge = edge_of(bound, true, document, where);
  const Expr any = pool_.concat(whole(), fraction());
  if (edge.number.is_negative) return pool_.literal("-", magnitude_above(edge));
  if (edge.number.is_zero() && edge.is_open) return pool_.literal("-", magnitude_above(edge));
  return pool_.any(pool_.literal("-", any), magnitude_below(edge));
}

// Returns the number in all its spellings without an exponent.
Expr JsonText::spellings_of(const Decimal& number) {
  const Expr zeros = pool_.star(pool_.literal("0"));
  const Expr behind = number.part.empty() ? pool_.optional(pool_.literal(".0", zeros))
                                          : pool_.literal("." + number.part, zeros);
  const Expr magnitude = pool_.literal(number.whole, behind);
  if (number.is_zero()) return pool_.any(magnitude, pool_.literal("-", magnitude));
  return number.is_negative ? pool_.literal("-", magnitude) : magnitude;
}

// Returns all numbers without an exponent that readers with doubles take for the value.
Expr JsonText::numbers_read_as(const Json& value, const Document& document, const Json& where) {
  const Decimal d = decimal_of(value, document, where);
  if (d.is_zero()) return spellings_of(d);
  // Edges are the numbers next to the value that are not taken for it.
  const Bound bound = {value, true};
  Edge low = edge_of(bound, !d.is_negative, document, where);
  Edge high = edge_of(bound, d.is_negative, document, where);
  low.is_open = !low.is_open;
  high.is_open = !high.is_open;
  const Expr magnitude = pool_.all({magnitude_above(low), magnitude_below(high)});
  return d.is_negative ? pool_.literal("-", magnitude) : magnitude;
}

Expr JsonText::number(const Constraints& c, const Document& document) {
  if ((c.types & kNumber) == 0) return Pool::kNone;
  // Doubles tell whole numbers of so few digits apart: only another spelling is read as the same.
  constexpr size_t kDigitsOfDoubles = 15;
  const bool is_whole = (c.types & kFraction) == 0;
  std::vector<Expr> named;
  for (const Json* const value : c.not_values) {
    if (!value->is_number()) continue;
    const Decimal number = decimal_of(*value, document, *c.origin);
    named.push_back(is_whole && number.whole.size() <= kDigitsOfDoubles
                        ? spellings_of(number)
                        : numbers_read_as(*value, document, *c.origin));
  }
  const Expr e = number_between(c, document, named.empty());
  if (pool_.calls_rules(e)) {
    if (named.empty()) return e;
    document.refuse(*c.origin, "not",
                    "numbers that are named are not supported beside multiples without a least "
                    "and a greatest one");
  }
  return pool_.all({e, short_number(c, document), pool_.no(pool_.any(named))});
}

// Returns the numbers that are written as people write them: with no more digits than a double
// tells apart beside those of the bounds and multiples, and without a fraction where the type is
// integer. Small models go on with digits without end where they may.
Expr JsonText::short_number(const Constraints& c, const Document& document) {
  constexpr int kMostDigits = 16, kMostOfExponent = 2;
  int most = kMostDigits;
  const auto make_room = [&](const Json& value) {
    const Decimal d = decimal_of(value, document, *c.origin);
    most += static_cast<int>(d.whole.size() + d.part.size());
  };
  for (const auto* bounds : {&c.least, &c.most}) {
    for (const Bound& bound : *bounds) make_room(bound.value);
  }
  for (const auto* multiples : {&c.multiples, &c.not_multiples}) {
    for (const Json& multiple : *multiples) make_room(multiple);
  }
  const auto some_digits = [&](int n) { return pool_.repeat(digit(0, 9), 1, n); };
  const Expr whole = pool_.concat(pool_.optional(pool_.literal("-")), some_digits(most));
  if ((c.types & kFraction) == 0) return whole;
  const Expr part = pool_.optional(pool_.literal(".", some_digits(most)));
  const Expr e = pool_.any(pool_.literal("e"), pool_.literal("E"));
  const Expr sign = pool_.optional(pool_.any(pool_.literal("-"), pool_.literal("+")));
  const Expr exponent =
      pool_.optional(pool_.concat(e, pool_.concat(sign, some_digits(kMostOfExponent))));
  return pool_.concat(whole, pool_.concat(part, exponent));
}

// Returns numbers without looking at those that are named and must not be. An exponent may have any
// of many spellings for one number, so it is left out where numbers are told from each other.
Expr JsonText::number_between(const Constraints& c, const Document& document,
                              bool may_have_exponent) {
  const Expr sign = pool_.optional(pool_.literal("-"));
  const Json& where = *c.origin;
  const bool may_be_whole = (c.types & kInteger) != 0, may_be_fraction = (c.types & kFraction) != 0;
  const Expr integer = pool_.concat(sign, whole());
  if (!c.multiples.empty() || !c.not_multiples.empty()) {
    return Multiples(c, document, where, &pool_).numbers();
  }
  const bool is_any = may_be_whole && may_be_fraction;
  if (is_any && c.least.empty() && c.most.empty()) {
    const Expr exponent = pool_.concat(
        pool_.any(pool_.literal("e"), pool_.literal("E")),
        pool_.concat(pool_.optional(pool_.any(pool_.literal("-"), pool_.literal("+"))), digits(1)));
    const Expr e = may_have_exponent ? pool_.optional(exponent) : Pool::kEmpty;
    return pool_.concat(sign, pool_.concat(whole(), pool_.concat(fraction(), e)));
  }
  std::vector<Expr> all;
  for (const Bound& bound : c.least) all.push_back(at_least(bound, document, where));
  for (const Bound& bound : c.most) all.push_back(at_most(bound, document, where));
  if (!may_be_fraction) all.push_back(integer);
  if (!may_be_whole) {
    const Expr last = pool_.concat(digit(1, 9), pool_.star(pool_.literal("0")));
    const Expr part = pool_.literal(".", pool_.concat(digits(), last));
    all.push_back(pool_.concat(sign, pool_.concat(whole(), part)));
  }
  return pool_.all(all);
}

}  // namespace troika::grammar::schema
