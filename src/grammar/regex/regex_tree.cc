#include "grammar/regex/regex_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "text/characters.h"
#include "text/utf8.h"

namespace troika::grammar {
namespace {

using TreeKind = RegexTree::Kind;

CharacterSet digits() { return CharacterSet::range('0', '9'); }

CharacterSet word() {
  CharacterSet set = digits();
  set.add('a', 'z');
  set.add('A', 'Z');
  set.add('_', '_');
  return set;
}

CharacterSet white() {
  CharacterSet set = CharacterSet::range('\t', '\r');
  for (const uint32_t code :
       {0x20u, 0xa0u, 0x1680u, 0x2028u, 0x2029u, 0x202fu, 0x205fu, 0x3000u, 0xfeffu}) {
    set.add(code, code);
  }
  set.add(0x2000, 0x200a);
  return set;
}

CharacterSet line_ends() {
  CharacterSet set = CharacterSet::of('\n');
  set.add('\r', '\r');
  set.add(0x2028, 0x2029);
  return set;
}

// Limits the text of one regular expression: its tree takes some hundred times as much memory.
constexpr size_t kMostBytes = size_t{64} << 10;

class RegexReader {
 public:
  RegexReader(std::string_view text, const Limits& limits, Pool* pool)
      : text_(text), limits_(limits), pool_(*pool) {}

  RegexTree read() {
    RegexTree tree = choice();
    if (!at_end()) fail("')' closes nothing");
    return tree;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("in the regular expression, at byte {}: {}.", at_, what));
  }
  bool at_end() const { return at_ >= text_.size(); }
  char peek(size_t n = 0) const { return at_ + n < text_.size() ? text_[at_ + n] : '\0'; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  static RegexTree of_set(CharacterSet set) {
    RegexTree tree;
    tree.kind = TreeKind::kSet;
    tree.set = std::move(set);
    return tree;
  }
  static void add(RegexTree part, RegexTree* tree) {
    tree->has_anchor |= part.has_anchor;
    tree->parts.push_back(std::move(part));
  }

  RegexTree choice();
  RegexTree sequence();
  RegexTree atom();
  RegexTree group();
  bool read_counts(int* least, int* most);
  bool read_number(int* number);
  CharacterSet class_in_brackets();
  CharacterSet class_part(bool* is_one);
  CharacterSet escape(bool in_class, bool* is_one);
  uint32_t character();
  uint32_t hex(int n_digits);
  uint32_t unicode_escape();

  std::string_view text_;
  Limits limits_;
  Pool& pool_;
  size_t at_ = 0;
  int n_nested_ = 0;
};

RegexTree RegexReader::choice() {
  if (++n_nested_ > limits_.n_nested) fail("groups are nested too deeply");
  RegexTree tree;
  tree.kind = TreeKind::kChoice;
  do {
    add(sequence(), &tree);
  } while (take("|"));
  --n_nested_;
  if (tree.parts.size() > 1) return tree;
  RegexTree only = std::move(tree.parts.front());
  return only;
}

RegexTree RegexReader::sequence() {
  RegexTree tree;
  while (!at_end() && peek() != '|' && peek() != ')') {
    RegexTree part = atom();
    int least = 0, most = Pool::kMany;
    bool is_repeated = true;
    if (take("+")) {
      least = 1;
    } else if (take("?")) {
      most = 1;
    } else if (!take("*")) {
      is_repeated = read_counts(&least, &most);
    }
    if (is_repeated) {
      if (part.kind == TreeKind::kStart || part.kind == TreeKind::kEnd) {
        fail("'^' and '$' are not repeated");
      }
      if (looks_ahead(part)) fail("what looks ahead is not repeated");
      take("?");  // a lazy repetition has the same texts
      RegexTree repeat;
      repeat.kind = TreeKind::kRepeat;
      repeat.least = least;
      repeat.most = most;
      add(std::move(part), &repeat);
      part = std::move(repeat);
    }
    add(std::move(part), &tree);
  }
  return tree;
}

bool RegexReader::read_number(int* number) {
  if (peek() < '0' || peek() > '9') return false;
  *number = 0;
  for (; peek() >= '0' && peek() <= '9'; ++at_) {
    *number = *number * 10 + (peek() - '0');
    if (*number > kMostRepetitions) fail(fmt::format("at most {} repetitions", kMostRepetitions));
  }
  return true;
}

// Reads {2}, {2,} or {2,5}. Returns false for a brace that begins none of these: it is a character.
bool RegexReader::read_counts(int* least, int* most) {
  const size_t before = at_;
  if (take("{") && read_number(least)) {
    *most = *least;
    if (take(",") && !read_number(most)) *most = Pool::kMany;
    if (take("}")) {
      if (*most != Pool::kMany && *most < *least) fail("the most repetitions are below the least");
      return true;
    }
  }
  at_ = before;
  return false;
}

RegexTree RegexReader::group() {
  std::optional<TreeKind> ahead;
  if (take("?")) {
    if (peek() == '<' && (peek(1) == '=' || peek(1) == '!')) {
      fail("looking behind is not supported");
    }
    if (take("=")) {
      ahead = TreeKind::kAhead;
    } else if (take("!")) {
      ahead = TreeKind::kNotAhead;
    } else if (take("<")) {
      while (!at_end() && peek() != '>') ++at_;
      if (!take(">")) fail("the name of a group does not end");
    } else if (!take(":")) {
      fail("this kind of group is not supported");
    }
  }
  RegexTree tree = choice();
  if (!take(")")) fail("')' is missing");
  if (!ahead) return tree;
  RegexTree looking;
  looking.kind = *ahead;
  looking.has_anchor = true;
  looking.parts.push_back(std::move(tree));
  return looking;
}

RegexTree RegexReader::atom() {
  RegexTree anchor;
  anchor.has_anchor = true;
  if (take("^")) {
    anchor.kind = TreeKind::kStart;
    return anchor;
  }
  if (take("$")) {
    anchor.kind = TreeKind::kEnd;
    return anchor;
  }
  if (take("(")) return group();
  if (take("[")) return of_set(class_in_brackets());
  if (take(".")) return of_set(line_ends().inverted());
  if (peek() == '*' || peek() == '+' || peek() == '?') {
    fail(fmt::format("'{}' stands behind nothing that it could repeat", peek()));
  }
  int least = 0, most = 0;
  if (read_counts(&least, &most)) fail("'{' stands behind nothing that it could repeat");
  if (take("\\")) {
    bool is_one = false;
    return of_set(escape(false, &is_one));
  }
  return of_set(CharacterSet::of(character()));
}

uint32_t RegexReader::character() {
  const text::Utf8Char c = text::decode_utf8(text_.substr(at_));
  if (!c.valid) fail("these bytes are no UTF-8");
  at_ += c.bytes;
  return c.code;
}

CharacterSet RegexReader::class_in_brackets() {
  const bool is_inverted = take("^");
  CharacterSet::Ranges ranges;
  const auto add = [&](const CharacterSet& part) {
    for (const auto& range : part.ranges()) {
      pool_.count_step();
      ranges.push_back(range);
    }
  };
  while (!take("]")) {
    bool is_first_one = false, is_last_one = false;
    const CharacterSet first = class_part(&is_first_one);
    if (peek() != '-' || peek(1) == ']' || at_ + 1 >= text_.size()) {
      add(first);
      continue;
    }
    ++at_;
    const CharacterSet last = class_part(&is_last_one);
    if (!is_first_one || !is_last_one) {  // as in [\w-.], where "-" means itself
      add(first);
      add(last);
      add(CharacterSet::of('-'));
      continue;
    }
    const uint32_t low = first.ranges().front().first, high = last.ranges().front().first;
    if (low > high) fail("a range of characters ends before it begins");
    add(CharacterSet::range(low, high));
  }
  const CharacterSet set = CharacterSet::of_ranges(std::move(ranges));
  return is_inverted ? set.inverted() : set;
}

CharacterSet RegexReader::class_part(bool* is_one) {
  if (at_end()) fail("']' is missing");
  if (take("\\")) return escape(true, is_one);
  *is_one = true;
  return CharacterSet::of(character());
}

uint32_t RegexReader::hex(int n_digits) {
  uint32_t code = 0;
  for (int i = 0; i < n_digits; ++i, ++at_) {
    const char c = peek(), lower = static_cast<char>(c | 0x20);
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (lower < 'a' || lower > 'f')) {
      fail(fmt::format("{} hexadecimal digits are expected", n_digits));
    }
    code = code * 16 + static_cast<uint32_t>(is_digit ? c - '0' : lower - 'a' + 10);
  }
  return code;
}

uint32_t RegexReader::unicode_escape() {
  if (take("{")) {
    uint32_t code = 0;
    do {
      code = code * 16 + hex(1);
      if (code > CharacterSet::kLast) fail("no character has this number");
    } while (peek() != '}' && !at_end());
    if (!take("}")) fail("'}' is missing");
    return code;
  }
  const uint32_t code = hex(4);
  if (code < 0xd800 || code >= 0xdc00 || !take("\\u")) return code;
  const uint32_t low = hex(4);
  if (low < 0xdc00 || low >= 0xe000) fail("this pair of surrogates is none");
  return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
}

CharacterSet RegexReader::escape(bool in_class, bool* is_one) {
  if (at_end()) fail("'\\' stands at the end");
  const char c = peek();
  ++at_;
  switch (c) {
    case 'd':
      return digits();
    case 'D':
      return digits().inverted();
    case 'w':
      return word();
    case 'W':
      return word().inverted();
    case 's':
      return white();
    case 'S':
      return white().inverted();
    case 'p':
    case 'P': {
      if (!take("{")) fail("'{' is expected behind \\p");
      const size_t end = text_.find('}', at_);
      if (end == std::string_view::npos) fail("'}' is missing");
      const CharacterSet set = character_property(text_.substr(at_, end - at_));
      at_ = end + 1;
      return c == 'p' ? set : set.inverted();
    }
    default:
      break;
  }
  *is_one = true;
  constexpr std::string_view kNames = "tnvfr", kCodes = "\t\n\v\f\r";
  const size_t known = kNames.find(c);
  uint32_t code = static_cast<uint8_t>(c);
  if (known != std::string_view::npos) {
    code = static_cast<uint8_t>(kCodes[known]);
  } else if (c == 'x') {
    code = hex(2);
  } else if (c == 'u') {
    code = unicode_escape();
  } else if (c == 'b' && in_class) {
    code = '\b';
  } else if (c == '0' && (peek() < '0' || peek() > '9')) {
    code = 0;
  } else if (c == 'c' && ((peek() | 0x20) >= 'a' && (peek() | 0x20) <= 'z')) {
    code = static_cast<uint8_t>(peek()) % 32;
    ++at_;
  } else if (word().has(code)) {
    --at_;
    fail(fmt::format("'\\{}' is not supported", c));
  } else if (code >= 0x80) {
    --at_;
    code = character();
  }
  const CharacterSet set = CharacterSet::of(code);
  if (set.empty()) fail("half a pair of surrogates is no character");
  return set;
}

// Returns the sets of the characters of each of these classes.
std::map<uint16_t, CharacterSet> sets_of(std::initializer_list<uint16_t> classes) {
  std::map<uint16_t, CharacterSet::Ranges> ranges;
  for (uint32_t code = 0; code <= CharacterSet::kLast; ++code) {
    const uint16_t of_code = text::classes_of(code);
    for (const uint16_t one : classes) {
      if ((of_code & one) == 0) continue;
      CharacterSet::Ranges& known = ranges[one];
      if (!known.empty() && known.back().second + 1 == code) {
        known.back().second = code;
      } else {
        known.emplace_back(code, code);
      }
    }
  }
  std::map<uint16_t, CharacterSet> sets;
  for (const uint16_t one : classes) sets[one] = CharacterSet::of_ranges(ranges[one]);
  return sets;
}

}  // namespace

RegexTree parse_regex(std::string_view regex, const Limits& limits, Pool* pool) {
  if (regex.size() > kMostBytes) {
    throw Error(fmt::format("in the regular expression: it is {} bytes long; at most {} are read.",
                            regex.size(), kMostBytes));
  }
  return RegexReader(regex, limits, pool).read();
}

CharacterSet character_property(std::string_view name) {
  struct Property {
    std::string_view name;
    uint16_t classes;
  };
  constexpr Property kProperties[] = {
      {"L", text::kLetter},         {"Letter", text::kLetter},
      {"N", text::kNumber},         {"Number", text::kNumber},
      {"M", text::kMark},           {"Mark", text::kMark},
      {"P", text::kPunctuation},    {"Punctuation", text::kPunctuation},
      {"S", text::kSymbol},         {"Symbol", text::kSymbol},
      {"Ll", text::kLower},         {"Lowercase_Letter", text::kLower},
      {"White_Space", text::kWhite}};
  if (name == "Any") return CharacterSet::all();
  if (name == "ASCII") return CharacterSet::range(0, 0x7f);
  const auto* const found = std::find_if(std::begin(kProperties), std::end(kProperties),
                                         [&](const Property& p) { return p.name == name; });
  if (found == std::end(kProperties)) {
    throw Error(fmt::format("in the regular expression: \\p{{{}}} is not supported.", name));
  }
  // All characters are looked at once, and not for each name that a text holds.
  static const std::map<uint16_t, CharacterSet> kSets =
      sets_of({text::kLetter, text::kNumber, text::kMark, text::kPunctuation, text::kSymbol,
               text::kLower, text::kWhite});
  return kSets.at(found->classes);
}

}  // namespace troika::grammar
