// Regular expressions in the dialect of ECMA-262, as far as they are regular: no references back,
// no looking around, no word boundaries.
#pragma once

#include <functional>
#include <string_view>

#include "grammar/characters.h"
#include "grammar/limits.h"
#include "grammar/pool.h"

namespace troika::grammar {

// What a character of a set looks like in the text: UTF-8, or within a JSON string.
using WriteCharacter = std::function<Expr(const CharacterSet& set)>;

// Texts that the expression fits as a whole.
Expr whole_regex(std::string_view regex, const WriteCharacter& write, const Limits& limits,
                 Pool* pool);

// Texts that it fits somewhere, unless ^ and $ say where. Throws Error like the other; its message
// does not say where the expression stands.
Expr found_regex(std::string_view regex, const WriteCharacter& write, const Limits& limits,
                 Pool* pool);

}  // namespace troika::grammar
