// Cuts the source of a template into tokens, with the whitespace rules that chat templates expect:
// trim_blocks and lstrip_blocks on, one newline at the end of the source dropped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troika::jinja {

enum class TokenKind : uint8_t {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 0;
  std::string text;  // data, name, operator; the unescaped string
  int64_t integer = 0;
  double number = 0;
};

// Throws an Error that names the line. The last token is kEnd.
std::vector<Token> tokenize(const std::string& source);

// Throws: "The chat template cannot be read: `what` (line 12)."
[[noreturn]] void fail_at_line(int line, const std::string& what);

}  // namespace troika::jinja
