// What turns texts into expressions. All throw Error for a text that they do not understand, and
// for what they do not support, with its place.
#pragma once

#include <string_view>

#include "grammar/limits.h"
#include "grammar/pool.h"

namespace troika::grammar {

// Rules as llama.cpp writes them; the text begins with the rule "root".
Expr read_gbnf(std::string_view text, const Limits& limits, Pool* pool);

// A regular expression, which the whole text fits.
Expr read_regex(std::string_view text, const Limits& limits, Pool* pool);

// A JSON schema, which a compact JSON text fits, with keys in the schema's order. `formats_bind`:
// "format" is more than a remark.
Expr read_json_schema(std::string_view text, const Limits& limits, bool formats_bind, Pool* pool);

}  // namespace troika::grammar
