#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "jinja/format/format.h"
#include "jinja/functions/builtins.h"
#include "jinja/values/string_util.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

// Returns the digits of a number as Python reads them: white space may stand around, single
// underscores between.
std::optional<std::string> plain_digits(Runtime& rt, const std::string& text) {
  rt.heap.step(text.size() / 4);
  const std::string_view s = strip_space(text, true, true);
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '_') {
      out.push_back(s[i]);
    } else if (i == 0 || i + 1 == s.size() || !std::isalnum(static_cast<unsigned char>(s[i - 1])) ||
               !std::isalnum(static_cast<unsigned char>(s[i + 1]))) {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<double> parse_float(Runtime& rt, const std::string& text) {
  const auto digits = plain_digits(rt, text);
  if (!digits || digits->empty()) {
    return std::nullopt;
  }
  const char* begin = digits->data() + ((*digits)[0] == '+' ? 1 : 0);
  const char* end = digits->data() + digits->size();
  if (begin == end || (begin != digits->data() && *begin == '-')) {
    return std::nullopt;
  }
  double d = 0;
  const auto result = std::from_chars(begin, end, d);
  if (result.ptr != end || result.ec == std::errc::invalid_argument) {
    return std::nullopt;
  }
  if (result.ec == std::errc::result_out_of_range) {
    // from_chars does not say in which direction a number is out of range; with a negative exponent
    // it is too small.
    const size_t e = digits->find_first_of("eE");
    const bool tiny = e != std::string::npos ? (*digits)[e + 1] == '-' : (*digits)[0] == '0';
    d = tiny ? 0.0 : HUGE_VAL;
    return *begin == '-' ? -d : d;
  }
  return d;
}

std::optional<int64_t> parse_int(Runtime& rt, const std::string& text, int base) {
  const auto digits = plain_digits(rt, text);
  if (!digits || digits->empty()) {
    return std::nullopt;
  }
  std::string s = *digits;
  const bool is_negative = s[0] == '-';
  if (s[0] == '-' || s[0] == '+') {
    s.erase(0, 1);
  }
  if (s.size() > 2 && s[0] == '0') {
    const char p = static_cast<char>(s[1] | 0x20);
    const int prefix_base = p == 'x' ? 16 : p == 'o' ? 8 : p == 'b' ? 2 : 0;
    if (prefix_base != 0 && (base == prefix_base || base == 0)) {
      base = prefix_base;
      s.erase(0, 2);
    }
  }
  base = base == 0 ? 10 : base;
  if (s.empty() || s[0] == '-' || s[0] == '+') {
    return std::nullopt;
  }
  s = (is_negative ? "-" : "") + s;
  int64_t value = 0;
  const auto result = std::from_chars(s.data(), s.data() + s.size(), value, base);
  if (result.ec != std::errc() || result.ptr != s.data() + s.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> truncated(double d) {
  if (!(std::fabs(d) < 9.2e18)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(d);
}

Value int_filter(Runtime& rt, Args& a) {
  const Value& v = a.at[0];
  const Value fallback = a.has(1) ? a.at[1] : Value::of(int64_t{0});
  const int64_t base = int_argument(rt, a, 2, 10);
  std::optional<int64_t> i;
  if (v.is_integral()) {
    i = v.as_int();
  } else if (v.is_float()) {
    i = truncated(v.as_double());
    // What is no number has the fallback. Infinity and larger numbers are errors, not 0.
    if (!i && !std::isnan(v.as_double())) rt.fail("int: the number leaves the range of 64 bits");
  } else if (v.is_string() && (base == 0 || (base >= 2 && base <= 36))) {
    i = parse_int(rt, v.str(), static_cast<int>(base));
    if (!i) {
      const auto d = parse_float(rt, v.str());
      i = d ? truncated(*d) : std::nullopt;
    }
  }
  rt.require_defined(v);
  return i ? Value::of(*i) : fallback;
}

Value float_filter(Runtime& rt, Args& a) {
  const Value& v = a.at[0];
  rt.require_defined(v);
  if (v.is_number()) {
    return Value::of(v.as_double());
  }
  const auto d = v.is_string() ? parse_float(rt, v.str()) : std::nullopt;
  return d ? Value::of(*d) : a.has(1) ? a.at[1] : Value::of(0.0);
}

Value abs_filter(Runtime& rt, Args& a) {
  const Value& v = a.at[0];
  if (v.is_float()) {
    return Value::of(std::fabs(v.as_double()));
  }
  return v.is_integral() && v.as_int() >= 0 ? Value::of(v.as_int()) : negative(rt, v);
}

// Returns the number rounded to the nearest 10^-precision, ties to even, from the exact decimal
// value.
double rounded(Runtime& rt, double d, int precision) {
  if (!std::isfinite(d) || precision > 340) {
    return d;
  }
  if (precision < 0) {
    const double unit = std::pow(10.0, -precision);
    return std::isfinite(unit) ? std::nearbyint(d / unit) * unit : 0.0;
  }
  step_digits(rt, d, precision);
  const std::string s = fmt::format("{:.{}f}", d, precision);
  double out = d;
  std::from_chars(s.data(), s.data() + s.size(), out);
  return out;
}

Value round_integer(Runtime& rt, int64_t i, int64_t precision) {
  if (precision >= 0) {
    return Value::of(i);
  }
  if (precision < -18) {
    return Value::of(int64_t{0});
  }
  const int64_t unit = power(rt, Value::of(int64_t{10}), Value::of(-precision)).as_int();
  int64_t q = i / unit;
  const int64_t r = i % unit;
  const int64_t twice = 2 * (r < 0 ? -r : r);
  if (twice > unit || (twice == unit && q % 2 != 0)) {
    q += i < 0 ? -1 : 1;
  }
  return multiply(rt, Value::of(q), Value::of(unit));
}

Value round_filter(Runtime& rt, Args& a) {
  const Value& v = a.at[0];
  if (!v.is_number()) {
    rt.require_defined(v);
    rt.fail(fmt::format("a {} cannot be rounded", type_name(v)));
  }
  const int64_t precision = std::clamp<int64_t>(int_argument(rt, a, 1, 0), -400, 400);
  const std::string method = a.has(2) ? string_argument(rt, a, 2, "the method of round") : "common";
  if (method == "common") {
    return v.is_integral() ? round_integer(rt, v.as_int(), precision)
                           : Value::of(rounded(rt, v.as_double(), static_cast<int>(precision)));
  }
  if (method != "ceil" && method != "floor") {
    rt.fail("the method of round is common, ceil or floor");
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = v.as_double() * unit;
  return Value::of((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Value filesizeformat(Runtime& rt, Args& a) {
  if (!a.at[0].is_number()) {
    rt.fail("filesizeformat needs a number");
  }
  const double bytes = a.at[0].as_double();
  const bool binary = bool_argument(a, 1, false);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) {
    return rt.text("1 Byte");
  }
  if (bytes < base) {
    return rt.text(fmt::format("{:.0f} Bytes", std::trunc(bytes)));
  }
  constexpr std::string_view kLetters = "kMGTPEZY";
  double unit = base;
  size_t i = 0;
  while (i + 1 < kLetters.size() && bytes >= unit * base) {
    unit *= base;
    ++i;
  }
  const char letter = binary && i == 0 ? 'K' : kLetters[i];
  return rt.text(fmt::format("{:.1f} {}{}", bytes / unit, letter, binary ? "iB" : "B"));
}

}  // namespace

const Table& number_filters() {
  static const Table kTable = {
      {"int", "value default? base?", int_filter},
      {"float", "value default?", float_filter},
      {"abs", "value", abs_filter},
      {"round", "value precision? method?", round_filter},
      {"filesizeformat", "value binary?", filesizeformat},
  };
  return kTable;
}

}  // namespace troika::jinja
