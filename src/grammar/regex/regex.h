// Reads regular expressions in the dialect of ECMA-262 as far as they are regular: references back,
// looking around and word boundaries are refused.
#pragma once

#include <functional>
#include <string_view>

#include "grammar/characters.h"
#include "grammar/limits.h"
#include "grammar/pool.h"

namespace troika::grammar {

// Returns what a character of a set looks like in the text: in UTF-8, or within a JSON string.
using WriteCharacter = std::function<Expr(const CharacterSet& set)>;

// Returns the texts that the regular expression fits as a whole. Throws Error.
Expr whole_regex(std::string_view regex, const WriteCharacter& write, const Limits& limits,
                 Pool* pool);

// Returns the texts of which the regular expression fits some part; ^ and $ may say which. Throws
// Error. The errors of both functions do not say where in a grammar the regular expression stands.
Expr found_regex(std::string_view regex, const WriteCharacter& write, const Limits& limits,
                 Pool* pool);

}  // namespace troika::grammar
