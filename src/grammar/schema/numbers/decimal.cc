#include "grammar/schema/numbers/decimal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace troika::grammar::schema {
namespace {

// Limits the digits of numbers that a schema has, and those that the double beside one has more.
constexpr int kMostDigits = 40, kMoreDigits = 17;

std::string without_zeros_in_front(std::string digits) {
  return digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
}

// Takes `by` from the digits as often as it goes, which a long division does for each digit.
void reduce(const std::string& by, std::string* rest) {
  const auto is_below = [&] {
    return rest->size() != by.size() ? rest->size() < by.size() : *rest < by;
  };
  while (!is_below()) {
    int borrow = 0;
    for (size_t i = 0; i < rest->size(); ++i) {
      char& digit = (*rest)[rest->size() - 1 - i];
      const int taken = (i < by.size() ? by[by.size() - 1 - i] - '0' : 0) + borrow;
      const int left = digit - '0' - taken;
      borrow = left < 0 ? 1 : 0;
      digit = static_cast<char>('0' + left + 10 * borrow);
    }
    *rest = without_zeros_in_front(*rest);
  }
}

// Returns the decimal of a text that may have an exponent, or nothing where it needs many more than
// `most_digits`.
std::optional<Decimal> read_decimal(std::string text, int most_digits) {
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
  if (std::abs(exponent) > most_digits) return std::nullopt;
  if (exponent > 0) digits.append(static_cast<size_t>(exponent), '0');
  const auto n_behind = static_cast<size_t>(std::max(0, -exponent));
  if (digits.size() <= n_behind) digits.insert(0, n_behind + 1 - digits.size(), '0');
  d.whole = without_zeros_in_front(digits.substr(0, digits.size() - n_behind));
  d.part = digits.substr(digits.size() - n_behind);
  d.part.erase(d.part.find_last_not_of('0') + 1);
  if (d.is_zero()) d.is_negative = false;
  return d;
}

}  // namespace

Decimal decimal_of(const Json& value, const Document& document, const Json& where) {
  // The text has the fewest digits that mean this number.
  const std::string text =
      value.is_number_float() ? fmt::format("{}", value.get<double>()) : value.dump();
  const auto d = read_decimal(text, kMostDigits);
  if (!d)
    document.refuse(where, "", fmt::format("the number {} has too many digits", value.dump()));
  return *d;
}

Edge edge_of(const Bound& bound, bool is_upper, const Document& document, const Json& where) {
  const Decimal d = decimal_of(bound.value, document, where);
  // The doubles beside 0 are so small that no number of reasonable length is taken for it.
  if (!bound.is_open || d.is_zero()) return {d, bound.is_open};
  const double infinity = std::numeric_limits<double>::infinity();
  const double next = std::nextafter(bound.value.get<double>(), is_upper ? -infinity : infinity);
  const auto edge = read_decimal(fmt::format("{}", next), kMostDigits + kMoreDigits);
  return edge ? Edge{*edge, false} : Edge{d, true};
}

int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  const int of_wholes = a.whole.compare(b.whole);
  return of_wholes != 0 ? of_wholes : a.part.compare(b.part);
}

bool is_multiple(const Decimal& number, const Decimal& of) {
  const size_t n_places = std::max(number.part.size(), of.part.size());
  const auto scaled = [&](const Decimal& d) {
    return without_zeros_in_front(d.whole + d.part + std::string(n_places - d.part.size(), '0'));
  };
  const std::string by = scaled(of);
  std::string rest = "0";
  for (const char digit : scaled(number)) {
    rest = without_zeros_in_front(rest + digit);
    reduce(by, &rest);
  }
  return rest == "0";
}

}  // namespace troika::grammar::schema
