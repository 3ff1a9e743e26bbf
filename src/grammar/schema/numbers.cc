// Makes expressions of numbers between bounds, and of multiples of a number.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "grammar/schema/json_text.h"

namespace troika::grammar::schema {
namespace {

constexpr size_t kMostDigits = 40;

// A decimal number: its sign and its digits in front of the point and behind it, without needless
// zeros.
struct Decimal {
  bool is_negative = false;
  std::string whole, part;
  bool is_zero() const { return whole == "0" && part.empty(); }
};

Decimal decimal_of(const Json& value, const Document& document, const Json& where) {
  // The text has the fewest digits that mean this number. It may have an exponent.
  std::string text =
      value.is_number_float() ? fmt::format("{}", value.get<double>()) : value.dump();
  Decimal d;
  if (text.front() == '-') {
    d.is_negative = true;
    text.erase(0, 1);
  }
  int exponent = 0;
  if (const size_t e = text.find('e'); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.erase(e);
  }
  const size_t point = text.find('.');
  std::string digits = text.substr(0, point);
  const int n_part = point == std::string::npos ? 0 : static_cast<int>(text.size() - point - 1);
  if (point != std::string::npos) digits += text.substr(point + 1);
  exponent -= n_part;
  if (std::abs(exponent) > static_cast<int>(kMostDigits)) {
    document.refuse(where, "", fmt::format("the number {} has too many digits", value.dump()));
  }
  if (exponent > 0) digits.append(static_cast<size_t>(exponent), '0');
  const auto n_behind = static_cast<size_t>(std::max(0, -exponent));
  if (digits.size() <= n_behind) digits.insert(0, n_behind + 1 - digits.size(), '0');
  d.whole = digits.substr(0, digits.size() - n_behind);
  d.part = digits.substr(digits.size() - n_behind);
  d.whole.erase(0, std::min(d.whole.find_first_not_of('0'), d.whole.size() - 1));
  d.part.erase(d.part.find_last_not_of('0') + 1);
  if (d.is_zero()) d.is_negative = false;
  return d;
}

}  // namespace

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
  if (type_of(value) != kInteger) {
    return pool_.concat(pool_.literal(value.dump()), pool_.star(pool_.literal("0")));
  }
  std::string text = value.dump();
  if (value.is_number_float()) {
    if (text.find('e') != std::string::npos) return pool_.literal(text);
    text.erase(text.find('.'));
  }
  const Expr zeros = pool_.literal(".", pool_.repeat(pool_.literal("0"), 1, Pool::kMany));
  const Expr e = pool_.concat(pool_.literal(text), pool_.optional(zeros));
  return text == "0" ? pool_.any(e, pool_.literal("-", e)) : e;
}

Expr JsonText::magnitude_above(const std::string& whole, const std::string& part, bool is_open) {
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

Expr JsonText::magnitude_below(const std::string& whole, const std::string& part, bool is_open) {
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
  const Decimal d = decimal_of(bound.value, document, where);
  const Expr positive = pool_.concat(whole(), fraction());
  if (d.is_negative) {
    return pool_.any(positive, pool_.literal("-", magnitude_below(d.whole, d.part, bound.is_open)));
  }
  if (!d.is_zero() || bound.is_open) return magnitude_above(d.whole, d.part, bound.is_open);
  return pool_.any(positive, pool_.literal("-", magnitude_below("0", "", false)));
}

Expr JsonText::at_most(const Bound& bound, const Document& document, const Json& where) {
  const Decimal d = decimal_of(bound.value, document, where);
  const Expr any = pool_.concat(whole(), fraction());
  if (d.is_negative) return pool_.literal("-", magnitude_above(d.whole, d.part, bound.is_open));
  if (d.is_zero() && bound.is_open) return pool_.literal("-", magnitude_above("0", "", true));
  return pool_.any(pool_.literal("-", any), magnitude_below(d.whole, d.part, bound.is_open));
}

// Returns the multiples of a number. Digits are read as in a long division: there is a rule for
// each rest of the division so far, and for each place behind the point.
Expr JsonText::multiples(const Json& of, bool has_negative, bool has_positive,
                         const Document& document, const Json& where) {
  const Decimal d = decimal_of(of, document, where);
  const std::string digits_of = d.whole + d.part;
  constexpr int kMostRests = 5000;
  const size_t n_places = d.part.size();
  if (digits_of.size() > 9 || std::stol(digits_of) * static_cast<long>(n_places + 1) > kMostRests) {
    document.refuse(where, "multipleOf", fmt::format("{} has too many digits", of.dump()));
  }
  const long k = std::stol(digits_of);
  std::vector<std::vector<Rule>> rules(n_places + 1);  // the rules by place and rest
  for (std::vector<Rule>& row : rules) {
    for (long rest = 0; rest < k; ++rest) row.push_back(pool_.add_rule("multiple"));
  }
  std::vector<long> scale(n_places + 1, 1);  // what the missing digits multiply the rest by
  for (size_t i = n_places; i > 0; --i) scale[i - 1] = scale[i] * 10 % k;
  const Expr zeros = pool_.star(pool_.literal("0"));
  for (size_t place = 0; place <= n_places; ++place) {
    for (long rest = 0; rest < k; ++rest) {
      std::vector<Expr> ways;
      const bool is_multiple = rest * scale[place] % k == 0;
      if (is_multiple) ways.push_back(Pool::kEmpty);
      // The digits in front of the point, then those behind it.
      const size_t next = place == 0 ? 0 : place + 1;
      for (int n = 0; n < 10 && next <= n_places; ++n) {
        const Rule then = rules[next][static_cast<size_t>((rest * 10 + n) % k)];
        ways.push_back(pool_.concat(digit(n, n), pool_.call(then)));
      }
      if (place == 0 && n_places > 0) {
        for (int n = 0; n < 10; ++n) {
          const Rule then = rules[1][static_cast<size_t>((rest * 10 + n) % k)];
          ways.push_back(
              pool_.literal(std::string(".") + static_cast<char>('0' + n), pool_.call(then)));
        }
      } else if (place == 0 && is_multiple) {
        ways.push_back(pool_.literal(".", pool_.concat(pool_.literal("0"), zeros)));
      }
      if (place == n_places && place > 0 && is_multiple) ways.push_back(zeros);
      pool_.set_rule(rules[place][static_cast<size_t>(rest)], pool_.any(ways));
    }
  }
  const Expr magnitude = multiple_from(rules, k, n_places);
  std::vector<Expr> ways;
  if (has_positive) ways.push_back(magnitude);
  if (has_negative) ways.push_back(pool_.literal("-", magnitude));
  return pool_.any(ways);
}

Expr JsonText::multiple_from(const std::vector<std::vector<Rule>>& rules, long k, size_t n_places) {
  const Expr zeros = pool_.star(pool_.literal("0"));
  std::vector<Expr> first;
  first.reserve(11);
  for (int n = 1; n < 10; ++n) {
    first.push_back(pool_.concat(digit(n, n), pool_.call(rules[0][static_cast<size_t>(n % k)])));
  }
  const Expr behind_zero = pool_.concat(
      pool_.literal("0"), pool_.optional(pool_.literal(".", pool_.concat(digit(0, 0), zeros))));
  Expr below_one = Pool::kNone;  // such as 0.25, a multiple of 0.05
  if (n_places > 0) {
    std::vector<Expr> ways;
    ways.reserve(10);
    for (int n = 0; n < 10; ++n) {
      ways.push_back(pool_.concat(digit(n, n), pool_.call(rules[1][static_cast<size_t>(n % k)])));
    }
    below_one = pool_.literal("0.", pool_.any(ways));
  }
  first.push_back(below_one);
  first.push_back(behind_zero);
  return pool_.any(first);
}

Expr JsonText::number(const Constraints& c, const Document& document) {
  const Expr sign = pool_.optional(pool_.literal("-"));
  const Json& where = *c.origin;
  const bool may_be_whole = (c.types & kInteger) != 0, may_be_fraction = (c.types & kFraction) != 0;
  if (!may_be_whole && !may_be_fraction) return Pool::kNone;
  const Expr zeros = pool_.repeat(pool_.literal("0"), 1, Pool::kMany);
  const Expr behind =
      document.is_draft_4() ? Pool::kEmpty : pool_.optional(pool_.literal(".", zeros));
  const Expr integer = pool_.concat(sign, pool_.concat(whole(), behind));
  if (!c.multiples.empty()) {
    const auto is_zero = [](const Bound& b) { return b.value.get<double>() == 0 && !b.is_open; };
    const bool is_simple = c.multiples.size() == 1 &&
                           std::all_of(c.least.begin(), c.least.end(), is_zero) &&
                           std::all_of(c.most.begin(), c.most.end(), is_zero);
    const bool is_integer = type_of(c.multiples.front()) == kInteger;
    if (!is_simple || !may_be_whole || (!may_be_fraction && !is_integer)) {
      document.refuse(where, "multipleOf",
                      "beside other keywords for numbers this is not supported");
    }
    return multiples(c.multiples.front(), c.least.empty(), c.most.empty(), document, where);
  }
  const bool is_any = may_be_whole && may_be_fraction;
  if (is_any && c.least.empty() && c.most.empty()) {
    const Expr exponent = pool_.concat(
        pool_.any(pool_.literal("e"), pool_.literal("E")),
        pool_.concat(pool_.optional(pool_.any(pool_.literal("-"), pool_.literal("+"))), digits(1)));
    return pool_.concat(sign,
                        pool_.concat(whole(), pool_.concat(fraction(), pool_.optional(exponent))));
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
