// Reads GBNF: rules of literals, sets of characters, groups and repetitions.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "grammar/characters.h"
#include "grammar/readers.h"
#include "text/utf8.h"

namespace troika::grammar {
namespace {

// These may stand between two words: on one line, and where the next line may go on.
constexpr std::string_view kBlanks = " \t", kBlanksAndLines = " \t\r\n";

class GbnfReader {
 public:
  GbnfReader(std::string_view text, const Limits& limits, Pool* pool)
      : text_(text), limits_(limits), pool_(*pool) {}

  Expr read();

 private:
  [[noreturn]] void fail(const std::string& what) const;
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view what);
  void skip(std::string_view marks);
  bool line_goes_on();
  static bool is_name(char c);
  std::string name();
  Rule rule_of(const std::string& name);
  void rule();
  Expr alternatives(bool is_group);
  Expr sequence(bool is_group);
  Expr item();
  Expr repeated(Expr e);
  Expr literal();
  Expr characters();
  uint32_t character();
  uint32_t hex(int n_digits);
  int number();

  std::string_view text_;
  Limits limits_;
  Pool& pool_;
  size_t at_ = 0;
  int n_nested_ = 0;
  std::map<std::string, Rule> rules_;
  std::map<std::string, size_t>
      called_;  // the rules that are called, and where they are called first
  std::set<std::string> defined_;
};

void GbnfReader::fail(const std::string& what) const {
  const std::string_view before = text_.substr(0, std::min(at_, text_.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  throw Error(
      fmt::format("The grammar's line {}, column {}: {}", line, before.size() - begin + 1, what));
}

bool GbnfReader::take(std::string_view what) {
  if (!text_.substr(at_).starts_with(what)) return false;
  at_ += what.size();
  return true;
}

// Goes over these marks and over comments.
void GbnfReader::skip(std::string_view marks) {
  for (; !at_end(); ++at_) {
    const char c = peek();
    if (c == '#') {
      while (!at_end() && peek() != '\n') ++at_;
      --at_;
    } else if (marks.find(c) == std::string_view::npos) {
      return;
    }
  }
}

// Says whether further alternatives stand on the next line.
bool GbnfReader::line_goes_on() {
  const size_t before = at_;
  skip(kBlanksAndLines);
  if (peek() == '|') return true;
  at_ = before;
  return false;
}

bool GbnfReader::is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

std::string GbnfReader::name() {
  std::string name;
  for (; is_name(peek()); ++at_) name += peek();
  if (name.empty()) fail("the name of a rule is expected here.");
  return name;
}

Rule GbnfReader::rule_of(const std::string& name) {
  const auto found = rules_.find(name);
  if (found != rules_.end()) return found->second;
  return rules_[name] = pool_.add_rule(name);
}

void GbnfReader::rule() {
  const std::string rule_name = name();
  skip(kBlanks);
  if (!take("::=")) fail(fmt::format("'::=' is expected behind '{}'.", rule_name));
  if (!defined_.insert(rule_name).second) {
    fail(fmt::format("the rule '{}' is there twice; join the two with '|'.", rule_name));
  }
  skip(kBlanksAndLines);
  const Rule rule = rule_of(rule_name);
  pool_.set_rule(rule, alternatives(false));
  skip(kBlanks);
  if (!at_end() && peek() != '\n' && peek() != '\r') {
    fail(fmt::format("'{}' has no meaning here.", peek()));
  }
}

Expr GbnfReader::alternatives(bool is_group) {
  std::vector<Expr> ways = {sequence(is_group)};
  while (peek() == '|' || (!is_group && line_goes_on())) {
    ++at_;
    skip(kBlanksAndLines);
    ways.push_back(sequence(is_group));
  }
  return pool_.any(ways);
}

Expr GbnfReader::sequence(bool is_group) {
  std::vector<Expr> items;
  for (;;) {
    skip(is_group ? kBlanksAndLines : kBlanks);
    const char c = peek();
    const bool is_item = c == '"' || c == '[' || c == '(' || c == '.' || c == '<' || is_name(c);
    if (!is_item) break;
    const Expr e = item();
    skip(is_group ? kBlanksAndLines : kBlanks);
    items.push_back(repeated(e));
  }
  Expr joined = Pool::kEmpty;
  for (size_t i = items.size(); i > 0; --i) joined = pool_.concat(items[i - 1], joined);
  return joined;
}

Expr GbnfReader::item() {
  if (take("\"")) return literal();
  if (take("[")) return characters();
  if (take(".")) return utf8_character(&pool_, CharacterSet::all());
  if (peek() == '<') fail("tokens (<...>) are not supported; write the text that they stand for.");
  if (take("(")) {
    if (++n_nested_ > limits_.n_nested) fail("groups are nested too deeply.");
    const Expr e = alternatives(true);
    if (!take(")")) fail("')' is expected here.");
    --n_nested_;
    return e;
  }
  const size_t where = at_;
  const std::string called = name();
  called_.emplace(called, where);
  return pool_.call(rule_of(called));
}

Expr GbnfReader::repeated(Expr e) {
  for (;; skip(kBlanks)) {
    if (take("*")) {
      e = pool_.star(e);
    } else if (take("+")) {
      e = pool_.repeat(e, 1, Pool::kMany);
    } else if (take("?")) {
      e = pool_.optional(e);
    } else if (take("{")) {
      skip(kBlanks);
      const int least = number();
      int most = least;
      skip(kBlanks);
      if (take(",")) {
        skip(kBlanks);
        most = peek() == '}' ? Pool::kMany : number();
        skip(kBlanks);
      }
      if (!take("}")) fail("'}' is expected here.");
      if (most != Pool::kMany && most < least)
        fail("the most repetitions are fewer than the least.");
      e = pool_.repeat(e, least, most);
    } else {
      return e;
    }
  }
}

int GbnfReader::number() {
  if (peek() < '0' || peek() > '9') fail("a number is expected here.");
  int n = 0;
  for (; peek() >= '0' && peek() <= '9'; ++at_) {
    n = n * 10 + (peek() - '0');
    if (n > kMostRepetitions) fail(fmt::format("at most {} repetitions.", kMostRepetitions));
  }
  return n;
}

uint32_t GbnfReader::hex(int n_digits) {
  uint32_t code = 0;
  for (int i = 0; i < n_digits; ++i, ++at_) {
    const char c = peek();
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      code = code * 16 + static_cast<uint32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      code = code * 16 + static_cast<uint32_t>(lower - 'a' + 10);
    } else {
      fail(fmt::format("{} hexadecimal digits are expected here.", n_digits));
    }
  }
  if (code > CharacterSet::kLast || (code >= 0xd800 && code < 0xe000)) {
    fail("this number is none of a Unicode character.");
  }
  return code;
}

uint32_t GbnfReader::character() {
  if (at_end()) fail("the grammar ends within a literal or a set of characters.");
  if (!take("\\")) {
    const text::Utf8Char c = text::decode_utf8(text_.substr(at_));
    if (!c.valid) fail("these bytes are no UTF-8.");
    at_ += c.bytes;
    return c.code;
  }
  const char c = peek();
  ++at_;
  switch (c) {
    case 'x':
      return hex(2);
    case 'u':
      return hex(4);
    case 'U':
      return hex(8);
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'n':
      return '\n';
    case '\\':
    case '"':
    case '[':
    case ']':
      return static_cast<uint32_t>(c);
    default:
      --at_;
      fail(
          "this escape has no meaning. Known are \\n \\r \\t \\\\ \\\" \\[ \\] \\x41 \\u0041 "
          "\\U00000041.");
  }
}

Expr GbnfReader::literal() {
  std::string bytes;
  while (!take("\"")) text::append_utf8(character(), &bytes);
  return pool_.literal(bytes);
}

Expr GbnfReader::characters() {
  const bool is_inverted = take("^");
  CharacterSet::Ranges ranges;
  while (!take("]")) {
    const uint32_t first = character();
    uint32_t last = first;
    if (peek() == '-' && text_.substr(at_, 2) != "-]") {
      ++at_;
      last = character();
    }
    if (last < first) fail("this range of characters ends before it begins.");
    pool_.count_step();
    ranges.emplace_back(first, last);
  }
  const CharacterSet set = CharacterSet::of_ranges(std::move(ranges));
  return utf8_character(&pool_, is_inverted ? set.inverted() : set);
}

Expr GbnfReader::read() {
  for (skip(kBlanksAndLines); !at_end(); skip(kBlanksAndLines)) rule();
  if (defined_.count("root") == 0) {
    throw Error("The grammar has no rule 'root', with which every text begins.");
  }
  for (const auto& [called, where] : called_) {
    if (defined_.count(called) > 0) continue;
    at_ = where;
    fail(fmt::format("there is no rule '{}'.", called));
  }
  return pool_.call(rule_of("root"));
}

}  // namespace

Expr read_gbnf(std::string_view text, const Limits& limits, Pool* pool) {
  return GbnfReader(text, limits, pool).read();
}

}  // namespace troika::grammar
