#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "jinja/format/format.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

size_t read_count(Runtime& rt, std::string_view s, size_t& i) {
  size_t n = 0;
  while (i < s.size() && s[i] >= '0' && s[i] <= '9') {
    n = n * 10 + static_cast<size_t>(s[i++] - '0');
    if (n > kWidestField) {
      rt.fail(fmt::format("a format asks for more than {} characters", kWidestField));
    }
  }
  return n;
}

// Returns "1234567" with a mark after every `every` digits, from the right.
std::string grouped(const std::string& digits, char mark, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) {
      out.push_back(mark);
    }
    out.push_back(digits[i]);
  }
  return out;
}

struct Digits {
  std::string whole;
  std::string rest;  // point, fraction, exponent and percent sign
  std::string prefix;
};

Digits integer_digits(Runtime& rt, uint64_t magnitude, const FormatSpec& spec) {
  Digits d;
  switch (spec.type) {
    case '\0':
    case 'd':
    case 'n':
      d.whole = fmt::format("{}", magnitude);
      break;
    case 'x':
    case 'X':
      d.whole = spec.type == 'x' ? fmt::format("{:x}", magnitude) : fmt::format("{:X}", magnitude);
      d.prefix = spec.type == 'x' ? "0x" : "0X";
      break;
    case 'o':
      d.whole = fmt::format("{:o}", magnitude);
      d.prefix = "0o";
      break;
    case 'b':
      d.whole = fmt::format("{:b}", magnitude);
      d.prefix = "0b";
      break;
    default:
      rt.fail(fmt::format("a format asks for an integer as '{}'", spec.type));
  }
  if (!spec.alternate) {
    d.prefix.clear();
  }
  return d;
}

std::string general(double magnitude, const FormatSpec& spec, bool upper) {
  const int precision = spec.precision < 0 ? 6 : std::max(spec.precision, 1);
  std::string s = spec.alternate ? fmt::format("{:#.{}g}", magnitude, precision)
                                 : fmt::format("{:.{}g}", magnitude, precision);
  if (upper) {
    std::transform(s.begin(), s.end(), s.begin(), [](char c) { return c == 'e' ? 'E' : c; });
  }
  return s;
}

std::string without_trailing_zeros(const std::string& number) {
  if (number.find('.') == std::string::npos) {
    return number;
  }
  const size_t end = number.find_last_not_of('0') + 1;
  return number.substr(0, number[end - 1] == '.' ? end - 1 : end);
}

// Writes a number without a type. Python then prints as repr does; with a precision it prints as g
// does, but with a digit behind the point, and begins with exponents one digit earlier.
std::string untyped(double magnitude, const FormatSpec& spec) {
  if (spec.precision < 0) {
    return float_repr(magnitude);
  }
  const int precision = std::max(spec.precision, 1);
  const std::string scientific = fmt::format("{:.{}e}", magnitude, precision - 1);
  const size_t e = scientific.find('e');
  const int exponent = std::atoi(scientific.c_str() + e + 1);
  if (exponent < -4 || exponent >= precision - 1) {
    return without_trailing_zeros(scientific.substr(0, e)) + scientific.substr(e);
  }
  const std::string s =
      without_trailing_zeros(fmt::format("{:.{}f}", magnitude, precision - 1 - exponent));
  return s.find('.') == std::string::npos ? s + ".0" : s;
}

Digits float_digits(Runtime& rt, double magnitude, const FormatSpec& spec) {
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  step_digits(rt, magnitude, precision);
  std::string s;
  if (!std::isfinite(magnitude)) {
    const bool upper = spec.type == 'F' || spec.type == 'E' || spec.type == 'G';
    s = std::isnan(magnitude) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
    return {s + (spec.type == '%' ? "%" : ""), "", ""};
  }
  switch (spec.type) {
    case '\0':
      s = untyped(magnitude, spec);
      break;
    case 'f':
    case 'F':
      s = fmt::format("{:.{}f}", magnitude, precision);
      break;
    case '%':
      s = fmt::format("{:.{}f}%", magnitude * 100, precision);
      break;
    case 'e':
      s = fmt::format("{:.{}e}", magnitude, precision);
      break;
    case 'E':
      s = fmt::format("{:.{}E}", magnitude, precision);
      break;
    case 'g':
    case 'n':
    case 'G':
      s = general(magnitude, spec, spec.type == 'G');
      break;
    default:
      rt.fail(fmt::format("a format asks for a number as '{}'", spec.type));
  }
  const size_t n_whole = std::min(s.find_first_not_of("0123456789"), s.size());
  return {s.substr(0, n_whole), s.substr(n_whole), ""};
}

}  // namespace

void step_digits(Runtime& rt, double d, int precision) {
  constexpr int kQuickDigits = 20;
  int exponent = 0;
  if (std::isfinite(d)) {
    std::frexp(d, &exponent);
  }
  const int n_digits = std::abs(exponent) * 3 / 10 + std::max(precision, 0);
  rt.heap.step(n_digits > kQuickDigits ? 8 * static_cast<uint64_t>(n_digits) : 0);
}

FormatSpec parse_spec(Runtime& rt, const std::string& text) {
  FormatSpec spec;
  size_t i = 0;
  if (!text.empty()) {
    size_t second = 0;
    utf8_next(text, second);
    if (second < text.size() && is_align(text[second])) {
      spec.fill = text.substr(0, second);
      spec.align = text[second];
      i = second + 1;
    } else if (is_align(text[0])) {
      spec.align = text[0];
      i = 1;
    }
  }
  const auto at = [&](std::string_view any) {
    return i < text.size() && any.find(text[i]) != std::string_view::npos;
  };
  if (at("+- ")) {
    spec.sign = text[i++];
  }
  if (at("#")) {
    spec.alternate = true;
    ++i;
  }
  if (at("0")) {
    if (spec.align == '\0') {
      spec.fill = "0";
      spec.align = '=';
      spec.zero = true;
    }
    ++i;
  }
  spec.width = read_count(rt, text, i);
  if (at(",_")) {
    spec.group = text[i++];
  }
  if (at(".")) {
    const size_t begin = ++i;
    spec.precision = static_cast<int>(read_count(rt, text, i));
    if (i == begin) {
      rt.fail("a format has a point without a precision");
    }
  }
  if (i < text.size()) {
    spec.type = text[i++];
  }
  if (i < text.size()) {
    rt.fail(fmt::format("'{}' is no format", text.substr(0, 40)));
  }
  return spec;
}

std::string pad(Runtime& rt, std::string text, const FormatSpec& spec, char default_align) {
  const size_t n_chars = utf8_length(text);
  if (n_chars >= spec.width) {
    return text;
  }
  const size_t n = spec.width - n_chars;
  rt.heap.step(n / 16);
  rt.heap.expect(n * spec.fill.size() + text.size());
  const char align = spec.align != '\0' ? spec.align : default_align;
  const size_t n_left = align == '<' ? 0 : align == '^' ? n / 2 : n;
  std::string out;
  for (size_t i = 0; i < n_left; ++i) {
    out += spec.fill;
  }
  out += text;
  for (size_t i = n_left; i < n; ++i) {
    out += spec.fill;
  }
  return out;
}

std::string format_number(Runtime& rt, const Value& v, const FormatSpec& spec) {
  if (spec.precision > kMostDigits) {
    rt.fail(fmt::format("a format asks for more than {} digits", kMostDigits));
  }
  const bool as_integer =
      v.is_integral() && std::string_view("eEfFgG%").find(spec.type) == std::string_view::npos;
  const int64_t i = as_integer ? v.as_int() : 0;
  const bool is_negative = as_integer ? i < 0 : std::signbit(v.as_double());
  const uint64_t magnitude = i < 0 ? ~static_cast<uint64_t>(i) + 1 : static_cast<uint64_t>(i);
  Digits d = as_integer ? integer_digits(rt, magnitude, spec)
                        : float_digits(rt, std::fabs(v.as_double()), spec);
  if (as_integer && spec.precision >= 0) {
    rt.fail("an integer takes no precision");
  }
  if (spec.group != '\0') {
    const bool binary =
        spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b';
    d.whole = grouped(d.whole, spec.group, binary ? 4 : 3);
  }
  const std::string sign = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const std::string front = sign + d.prefix;
  std::string body = d.whole + d.rest;
  if (spec.align == '=') {
    FormatSpec inner = spec;
    inner.align = '>';
    inner.width = spec.width > front.size() ? spec.width - front.size() : 0;
    return front + pad(rt, std::move(body), inner, '>');
  }
  return pad(rt, front + body, spec, '>');
}

std::string format_value(Runtime& rt, const Value& v, const FormatSpec& spec) {
  const bool plain = spec.width == 0 && spec.precision < 0 && spec.type == '\0' &&
                     spec.sign == '-' && spec.group == '\0' && spec.align == '\0';
  // A bool prints as a word only where there is no format at all.
  if (v.is_int() || v.is_float() || (v.is_bool() && !plain && spec.type != 's')) {
    if (spec.type == 'c' && v.is_integral() && v.as_int() >= 0 && v.as_int() < 0x110000) {
      std::string c;
      utf8_append(c, static_cast<uint32_t>(v.as_int()));
      return pad(rt, std::move(c), spec, '<');
    }
    return format_number(rt, v, spec);
  }
  if (!v.is_string() && !plain) {
    rt.fail(fmt::format("a {} takes no format", type_name(v)));
  }
  FormatSpec text_spec = spec;
  text_spec.align = spec.zero ? '<' : spec.align;
  const bool is_of_number = (spec.type != '\0' && spec.type != 's') || text_spec.align == '=' ||
                            spec.sign != '-' || spec.group != '\0';
  if (is_of_number) {
    rt.fail(fmt::format("a {} cannot be formatted like a number", type_name(v)));
  }
  std::string text = to_str(rt, v);
  if (spec.precision >= 0) {
    text.resize(utf8_offset(text, static_cast<size_t>(spec.precision)));
  }
  return pad(rt, std::move(text), text_spec, '<');
}

}  // namespace troika::jinja
