#include "grammar/schema/json_text.h"

#include <algorithm>

#include "base/error.h"
#include "text/utf8.h"

namespace troika::grammar::schema {
namespace {

constexpr std::string_view kShort = "\"\\/bfnrt";
constexpr std::string_view kShortCodes = "\"\\/\b\f\n\r\t";
constexpr uint32_t kAstral = 0x10000, kHigh = 0xd800, kLow = 0xdc00, kHalf = 0x400;

// Characters that stand for themselves in a string.
CharacterSet unescaped() {
  CharacterSet set = CharacterSet::range(0, 0x1f);
  set.add('"', '"');
  set.add('\\', '\\');
  return set.inverted();
}

}  // namespace

// Returns the numbers from `first` to `last` as `n_digits` hexadecimal digits of either case.
Expr JsonText::hex(uint32_t first, uint32_t last, int n_digits) {
  if (n_digits == 0) return Pool::kEmpty;
  const uint32_t unit = uint32_t{1} << (4 * (n_digits - 1));
  const auto digit_set = [](uint32_t from, uint32_t to) {
    ByteSet set;
    for (uint32_t d = from; d <= to; ++d) {
      constexpr std::string_view kLower = "0123456789abcdef", kUpper = "0123456789ABCDEF";
      set.add(static_cast<uint8_t>(kLower[d]));
      set.add(static_cast<uint8_t>(kUpper[d]));
    }
    return set;
  };
  const auto way = [&](uint32_t from, uint32_t to, uint32_t rest_from, uint32_t rest_to) {
    return pool_.concat(pool_.bytes(digit_set(from, to)), hex(rest_from, rest_to, n_digits - 1));
  };
  uint32_t low = first / unit, high = last / unit;
  if (low == high) return way(low, low, first % unit, last % unit);
  std::vector<Expr> ways;
  if (first % unit != 0) {
    ways.push_back(way(low, low, first % unit, unit - 1));
    ++low;
  }
  if (last % unit != unit - 1) {
    ways.push_back(way(high, high, 0, last % unit));
    --high;
  }
  if (low <= high) ways.push_back(way(low, high, 0, unit - 1));
  return pool_.any(ways);
}

// Returns the characters of a range as \uXXXX, or as a pair of those where one is not enough.
Expr JsonText::escaped(uint32_t first, uint32_t last) {
  std::vector<Expr> ways;
  if (first < kAstral) {
    ways.push_back(pool_.literal("\\u", hex(first, std::min(last, kAstral - 1), 4)));
  }
  if (last < kAstral) return pool_.any(ways);
  uint32_t low = std::max(first, kAstral) - kAstral;
  uint32_t high = last - kAstral;
  const auto pair = [&](uint32_t high_from, uint32_t high_to, uint32_t low_from, uint32_t low_to) {
    const Expr second = pool_.literal("\\u", hex(kLow + low_from, kLow + low_to, 4));
    const Expr both = pool_.concat(hex(kHigh + high_from, kHigh + high_to, 4), second);
    ways.push_back(pool_.literal("\\u", both));
  };
  if (low / kHalf == high / kHalf) {
    pair(low / kHalf, low / kHalf, low % kHalf, high % kHalf);
    return pool_.any(ways);
  }
  pair(low / kHalf, low / kHalf, low % kHalf, kHalf - 1);
  pair(high / kHalf, high / kHalf, 0, high % kHalf);
  if (low / kHalf + 1 < high / kHalf) pair(low / kHalf + 1, high / kHalf - 1, 0, kHalf - 1);
  return pool_.any(ways);
}

void JsonText::set_marks(const TextMarks& marks) {
  TROIKA_ASSERT(marks_.has_value());
  marks_ = marks;
}

Expr JsonText::character(const CharacterSet& set) {
  const auto found = characters_.find(set.ranges());
  if (found != characters_.end()) return found->second;
  if (marks_) return characters_[set.ranges()] = utf8_character(&pool_, set);
  static const CharacterSet kUnescaped = unescaped();
  std::vector<Expr> ways = {utf8_character(&pool_, set.both(kUnescaped))};
  ByteSet names;
  for (size_t i = 0; i < kShort.size(); ++i) {
    if (set.has(static_cast<uint8_t>(kShortCodes[i]))) names.add(static_cast<uint8_t>(kShort[i]));
  }
  ways.push_back(pool_.literal("\\", pool_.bytes(names)));
  for (const auto& [first, last] : set.ranges()) ways.push_back(escaped(first, last));
  const Expr e = pool_.any(ways);
  characters_.emplace(set.ranges(), e);
  return e;
}

Expr JsonText::spellings(const std::string& text) {
  std::vector<Expr> all;
  for (size_t at = 0; at < text.size();) {
    const text::Utf8Char c = text::decode_utf8(std::string_view(text).substr(at));
    pool_.count_step();
    all.push_back(character(CharacterSet::of(c.code)));
    at += c.bytes;
  }
  Expr e = Pool::kEmpty;
  for (size_t i = all.size(); i > 0; --i) e = pool_.concat(all[i - 1], e);
  return e;
}

Expr JsonText::quoted(Expr inside) {
  if (marks_) {
    const Expr all = pool_.no(Pool::kNone);
    const Expr without = pool_.no(pool_.concat(all, pool_.literal(marks_->close, all)));
    return pool_.literal(marks_->open,
                         pool_.concat(pool_.all({inside, without}), pool_.literal(marks_->close)));
  }
  return pool_.literal("\"", pool_.concat(inside, pool_.literal("\"")));
}

Expr JsonText::key(Expr inside) {
  if (!marks_) return quoted(inside);
  ByteSet word = ByteSet::range('a', 'z') | ByteSet::range('A', 'Z') | ByteSet::range('0', '9');
  for (const char c : {'_', '-'}) word.add(static_cast<uint8_t>(c));
  return pool_.all({inside, pool_.repeat(pool_.bytes(word), 1, Pool::kMany)});
}

std::string JsonText::key(const std::string& text) const {
  return marks_ ? text : Json(text).dump();
}

std::string JsonText::spelling(const std::string& text) const {
  if (marks_) return text;
  const std::string quoted = Json(text).dump();
  return quoted.substr(1, quoted.size() - 2);
}

Expr JsonText::value(const Json& value) {
  if (value.is_number()) return number_value(value);
  if (value.is_string()) return quoted(pool_.literal(spelling(value.get<std::string>())));
  if (!value.is_structured()) return pool_.literal(value.dump());
  std::vector<Expr> parts;
  const bool is_list = value.is_array();
  parts.push_back(pool_.literal(is_list ? "[" : "{"));
  for (const auto& [key, part] : value.items()) {
    if (parts.size() > 1) parts.push_back(pool_.literal(","));
    if (!is_list) parts.push_back(pool_.literal(this->key(key) + ":"));
    parts.push_back(this->value(part));
  }
  Expr e = pool_.literal(is_list ? "]" : "}");
  for (size_t i = parts.size(); i > 0; --i) e = pool_.concat(parts[i - 1], e);
  return e;
}

}  // namespace troika::grammar::schema
