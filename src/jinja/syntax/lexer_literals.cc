#include "jinja/syntax/lexer_literals.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

constexpr size_t kLongestNameBytes = 1000;

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

int digit_value(char c) {
  if (is_ascii_digit(c)) {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
}

// Returns the end of a run of digits of `base` from `i`. Single underscores may stand between them.
size_t digits_end(std::string_view s, size_t i, int base) {
  while (i < s.size()) {
    const bool underscore =
        s[i] == '_' && i + 1 < s.size() && digit_value(s[i + 1]) < base && s[i - 1] != '_';
    if (!underscore && digit_value(s[i]) >= base) {
      break;
    }
    ++i;
  }
  return i;
}

std::string without_underscores(std::string_view s) {
  std::string out;
  for (const char c : s) {
    if (c != '_') {
      out.push_back(c);
    }
  }
  return out;
}

void parse_integer(std::string_view digits, int base, Token& token) {
  const std::string plain = without_underscores(digits);
  token.kind = TokenKind::kInteger;
  const char* end = plain.data() + plain.size();
  const auto result = std::from_chars(plain.data(), end, token.integer, base);
  if (result.ec != std::errc() || result.ptr != end) {
    fail_at_line(token.line, fmt::format("the integer {} is too large", digits));
  }
}

size_t read_number(std::string_view s, size_t i, Token& token) {
  const char prefix = i + 1 < s.size() ? static_cast<char>(s[i + 1] | 0x20) : '\0';
  const int base = s[i] != '0'     ? 10
                   : prefix == 'x' ? 16
                   : prefix == 'o' ? 8
                   : prefix == 'b' ? 2
                                   : 10;
  if (base != 10 && i + 2 < s.size() && digit_value(s[i + 2]) < base) {
    const size_t end = digits_end(s, i + 2, base);
    parse_integer(s.substr(i + 2, end - i - 2), base, token);
    return end;
  }
  const size_t whole = digits_end(s, i, 10);
  size_t end = whole;
  // In "a.0.1" the digits are two indices, not a fraction.
  const bool after_dot = i > 0 && s[i - 1] == '.';
  if (!after_dot && end + 1 < s.size() && s[end] == '.' && is_ascii_digit(s[end + 1])) {
    end = digits_end(s, end + 1, 10);
  }
  if (!after_dot && end < s.size() && (s[end] | 0x20) == 'e') {
    size_t exponent = end + 1;
    exponent += exponent < s.size() && (s[exponent] == '+' || s[exponent] == '-') ? 1 : 0;
    if (exponent < s.size() && is_ascii_digit(s[exponent])) {
      end = digits_end(s, exponent, 10);
    }
  }
  if (end == whole) {
    parse_integer(s.substr(i, end - i), 10, token);
    return end;
  }
  const std::string plain = without_underscores(s.substr(i, end - i));
  token.kind = TokenKind::kFloat;
  const auto result = std::from_chars(plain.data(), plain.data() + plain.size(), token.number);
  if (result.ec != std::errc()) {
    fail_at_line(token.line, fmt::format("the number {} is out of range", plain));
  }
  return end;
}

// Returns the code point of n_digits hexadecimal digits at i.
uint32_t read_hex(std::string_view s, size_t i, size_t n_digits, int line) {
  uint32_t c = 0;
  for (size_t k = 0; k < n_digits; ++k) {
    if (i + k >= s.size() || digit_value(s[i + k]) >= 16) {
      fail_at_line(line, "a string has an escape with too few hexadecimal digits");
    }
    c = c << 4 | static_cast<uint32_t>(digit_value(s[i + k]));
  }
  if (c >= 0x110000) {
    fail_at_line(line, "a string has an escape beyond the last character of Unicode");
  }
  return c;
}

// Reads the escape whose letter stands at i; returns the byte behind it.
size_t read_escape(std::string_view s, size_t i, Token& token) {
  const char c = s[i];
  constexpr std::string_view kLetters = "abfnrtv\\'\"";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
  if (const size_t k = kLetters.find(c); k != std::string_view::npos) {
    token.text.push_back(kMeanings[k]);
    return i + 1;
  }
  if (c == '\n') {
    return i + 1;
  }
  if (c == 'x' || c == 'u' || c == 'U') {
    const size_t n_digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    utf8_append(token.text, read_hex(s, i + 1, n_digits, token.line));
    return i + 1 + n_digits;
  }
  if (c >= '0' && c <= '7') {
    uint32_t value = 0;
    size_t k = i;
    for (; k < i + 3 && k < s.size() && s[k] >= '0' && s[k] <= '7'; ++k) {
      value = value << 3 | static_cast<uint32_t>(s[k] - '0');
    }
    utf8_append(token.text, value);
    return k;
  }
  if (c == 'N') {
    fail_at_line(token.line, "character names (\\N{...}) are not supported in strings");
  }
  token.text.push_back('\\');
  return i;
}

size_t read_string(std::string_view s, size_t i, Token& token) {
  const char quote = s[i];
  token.kind = TokenKind::kString;
  for (++i; i < s.size();) {
    if (s[i] == quote) {
      return i + 1;
    }
    if (s[i] == '\\' && i + 1 < s.size()) {
      i = read_escape(s, i + 1, token);
    } else {
      token.text.push_back(s[i++]);
    }
  }
  fail_at_line(token.line, "a string has no end");
}

bool begins_name(uint32_t c) { return c == '_' || is_alpha(c); }

size_t read_name(std::string_view s, size_t i, Token& token) {
  const size_t begin = i;
  while (i < s.size()) {
    size_t next = i;
    const uint32_t c = utf8_next(s, next);
    if (!begins_name(c) && !is_decimal(c)) {
      break;
    }
    i = next;
  }
  // Names are copied and compared wherever arguments are passed, which counts no steps.
  if (i - begin > kLongestNameBytes) {
    fail_at_line(token.line, fmt::format("a name of more than {} bytes", kLongestNameBytes));
  }
  token.kind = TokenKind::kName;
  token.text = s.substr(begin, i - begin);
  return i;
}

}  // namespace

size_t read_literal(std::string_view s, size_t i, Token& token) {
  size_t behind = i;
  const uint32_t c = utf8_next(s, behind);
  if (c >= '0' && c <= '9') {
    return read_number(s, i, token);
  }
  if (c == '\'' || c == '"') {
    return read_string(s, i, token);
  }
  if (begins_name(c)) {
    return read_name(s, i, token);
  }
  token.kind = TokenKind::kOperator;
  for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
    if (s.substr(i, 2) == two) {
      token.text = two;
      return i + 2;
    }
  }
  if (c < 0x80 && std::string_view("+-*/%~[](){}<>=.:|,;").find(static_cast<char>(c)) !=
                      std::string_view::npos) {
    token.text = s.substr(i, 1);
    return i + 1;
  }
  fail_at_line(token.line, fmt::format("unexpected character '{}'", s.substr(i, behind - i)));
}

}  // namespace troika::jinja
