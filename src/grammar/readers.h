// What turns texts into expressions. All throw Error for a text that they do not understand, and
// for what they do not support, with its place.
#pragma once

#include <string>
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

// Marks between which texts stand as they are, in place of quotes and escapes; what closes a text
// is no part of one. Keys are bare then.
struct TextMarks {
  std::string open, close;
};
Expr read_marked_schema(std::string_view text, const TextMarks& marks, const Limits& limits,
                        Pool* pool);

}  // namespace troika::grammar
