// Functions on strings that filters and methods share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/runtime.h"

namespace troika::jinja {

// Returns the text of v as Python's str() gives it, in a Value that keeps its safety.
inline Value text_of(Runtime& rt, const Value& v) { return as_text(rt, v); }

// Replaces up to `most` occurrences, all if negative. An empty `old` stands before each character.
std::string replaced(Runtime& rt, const std::string& s, const std::string& old,
                     const std::string& with, int64_t most);

// Returns the string without the characters of `chars` at its ends, or without white space where
// chars is missing or none.
Value stripped(Runtime& rt, const Value& s, const Value& chars, bool left, bool right);

// Returns the lines that str.splitlines gives, which knows more line ends than \n alone.
std::vector<std::string_view> lines_of(Runtime& rt, std::string_view s, bool keep_ends);

std::string centered(Runtime& rt, const Value& s, int64_t width, const std::string& fill);

}  // namespace troika::jinja
