#include "jinja/syntax/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "jinja/syntax/lexer_literals.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

void fail_at_line(int line, const std::string& what) {
  throw Error(fmt::format("The chat template cannot be read: {} (line {}).", what, line));
}

namespace {

constexpr size_t npos = std::string_view::npos;
// Tokens and tree take a hundred times the source at worst; templates of models have some
// kilobytes.
constexpr size_t kMostSourceBytes = size_t{4} << 20;

// Returns the source with every line end as \n, without the last one.
std::string normalized(const std::string& source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out.push_back('\n');
    }
  }
  if (!out.empty() && out.back() == '\n') {
    out.pop_back();
  }
  return out;
}

class Lexer {
 public:
  explicit Lexer(const std::string& source) : source_(normalized(source)), s_(source_) {}

  std::vector<Token> run() {
    while (position_ < s_.size()) {
      lex_outside();
    }
    push(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  Token& push(TokenKind kind, std::string text = {}) {
    tokens_.push_back({kind, line_, std::move(text)});
    return tokens_.back();
  }
  void push_data(std::string_view data) {
    if (!data.empty()) {
      push(TokenKind::kData, std::string(data));
    }
  }
  bool at(std::string_view what) const { return s_.substr(position_, what.size()) == what; }
  void advance_to(size_t to) {
    line_ += static_cast<int>(std::count(s_.begin() + static_cast<ptrdiff_t>(position_),
                                         s_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    line_starting_ = to > position_ ? s_[to - 1] == '\n' : line_starting_;
    position_ = to;
  }
  size_t skip_space(size_t from) const {
    while (from < s_.size()) {
      size_t next = from;
      if (!is_space(utf8_next(s_, next))) {
        break;
      }
      from = next;
    }
    return from;
  }
  char sign_at(size_t i) const {
    return i < s_.size() && (s_[i] == '-' || s_[i] == '+') ? s_[i] : '\0';
  }

  // Returns data in front of a tag whose opening brace is followed by `sign`.
  std::string_view before_tag(std::string_view data, char sign, bool is_variable) const {
    if (sign == '-') {
      return strip_space(data, false, true);
    }
    if (sign == '+' || is_variable) {
      return data;
    }
    const size_t newline = data.rfind('\n');
    const size_t line_begin = newline == npos ? 0 : newline + 1;
    if ((line_begin > 0 || line_starting_) &&
        strip_space(data.substr(line_begin), true, false).empty()) {
      return data.substr(0, line_begin);
    }
    return data;
  }

  // Returns the position of the closing "%}" (or of the sign before it) if the tag `name` stands
  // alone at `open` ("{% name %}"); else npos.
  size_t lone_tag(size_t open, std::string_view name) const {
    size_t i = open + 2;
    i += sign_at(i) != '\0' ? 1 : 0;
    i = skip_space(i);
    if (s_.substr(i, name.size()) != name) {
      return npos;
    }
    i = skip_space(i + name.size());
    const size_t close = i + (sign_at(i) != '\0' ? 1 : 0);
    return s_.substr(close, 2) == "%}" ? i : npos;
  }

  // Returns the position behind a closing mark at `close` (a sign, or the mark itself) and the
  // whitespace that it swallows.
  size_t behind_close(size_t close, bool trims_newline) const {
    const char sign = sign_at(close);
    const size_t end = close + (sign != '\0' ? 3 : 2);
    if (sign == '-') {
      return skip_space(end);
    }
    return end + (sign == '\0' && trims_newline && end < s_.size() && s_[end] == '\n' ? 1 : 0);
  }

  size_t next_tag() const {
    for (size_t i = s_.find('{', position_); i != npos; i = s_.find('{', i + 1)) {
      if (i + 1 < s_.size() && (s_[i + 1] == '{' || s_[i + 1] == '%' || s_[i + 1] == '#')) {
        return i;
      }
    }
    return npos;
  }

  void lex_outside() {
    const size_t open = next_tag();
    if (open == npos) {
      push_data(s_.substr(position_));
      advance_to(s_.size());
      return;
    }
    const char type = s_[open + 1];
    const size_t raw_close = type == '%' ? lone_tag(open, "raw") : npos;
    // After "raw" a plus sign does not end the tag.
    const bool is_raw = raw_close != npos && sign_at(raw_close) != '+';
    const char sign = sign_at(open + 2);
    push_data(before_tag(s_.substr(position_, open - position_), sign, type == '{'));
    if (is_raw) {
      advance_to(behind_close(raw_close, false));
      lex_raw();
      return;
    }
    advance_to(open + 2 + (sign != '\0' ? 1 : 0));
    if (type == '#') {
      lex_comment();
    } else {
      lex_inside(type == '%');
    }
  }

  void lex_raw() {
    for (size_t i = s_.find("{%", position_); i != npos; i = s_.find("{%", i + 2)) {
      const size_t close = lone_tag(i, "endraw");
      if (close != npos) {
        push_data(before_tag(s_.substr(position_, i - position_), sign_at(i + 2), false));
        advance_to(behind_close(close, true));
        return;
      }
    }
    fail_at_line(line_, "{% raw %} has no {% endraw %}");
  }

  void lex_comment() {
    size_t close = s_.find("#}", position_);
    if (close == npos) {
      fail_at_line(line_, "a comment has no end #}");
    }
    close -= close > position_ && sign_at(close - 1) != '\0' ? 1 : 0;
    advance_to(behind_close(close, true));
  }

  void lex_inside(bool is_block) {
    push(is_block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin);
    const std::string_view mark = is_block ? "%}" : "}}";
    std::string open_brackets;
    while (true) {
      const size_t start = skip_space(position_);
      advance_to(start);
      if (position_ >= s_.size()) {
        fail_at_line(line_, fmt::format("a tag has no end {}", mark));
      }
      const bool signed_close =
          (at("-") || (is_block && at("+"))) && s_.substr(position_ + 1, 2) == mark;
      if (open_brackets.empty() && (signed_close || at(mark))) {
        push(is_block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd);
        advance_to(behind_close(position_, is_block));
        return;
      }
      lex_token(open_brackets);
    }
  }

  void lex_token(std::string& open_brackets) {
    Token& token = push(TokenKind::kOperator);
    const size_t end = read_literal(s_, position_, token);
    if (token.kind == TokenKind::kOperator) {
      balance(token, open_brackets);
    }
    advance_to(end);
  }

  void balance(const Token& token, std::string& open_brackets) const {
    const char c = token.text[0];
    if (c == '(' || c == '[' || c == '{') {
      open_brackets.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (open_brackets.empty() || open_brackets.back() != c) {
        fail_at_line(line_, fmt::format("'{}' closes nothing", c));
      }
      open_brackets.pop_back();
    }
  }

  const std::string source_;
  const std::string_view s_;
  size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(const std::string& source) {
  if (source.size() > kMostSourceBytes) {
    throw Error(
        fmt::format("The chat template has {} bytes; at most {} are read. Give another one with "
                    "‹template› FILE.",
                    source.size(), kMostSourceBytes));
  }
  return Lexer(source).run();
}

}  // namespace troika::jinja
