// Reads the tokens inside tags: names, numbers, strings, operators.
#pragma once

#include <cstddef>
#include <string_view>

#include "jinja/syntax/lexer.h"

namespace troika::jinja {

// Reads the token at byte `i` of `s` into `token` (kind, text, value; its line is used for errors)
// and returns the byte behind it. Precondition: i < s.size(), not at whitespace.
size_t read_literal(std::string_view s, size_t i, Token& token);

}  // namespace troika::jinja
