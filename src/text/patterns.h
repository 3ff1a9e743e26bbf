// Matches by hand the patterns of the models' own pre-tokenizers: the regular expression that each
// function matches stands above it. \s is the property White_Space.
#pragma once

#include <cstddef>

#include "text/characters.h"

namespace troika::text::patterns {

// 's|'t|'re|'ve|'m|'ll|'d, in any case of ASCII or in lower case only. Returns the length of the
// match, or 0.
size_t contraction(const View& v, size_t at, bool any_case);

// \s+(?!\S)|\s+
size_t spaces(const View& v, size_t at);

// \s*[\r\n]+|\s+(?!\S)|\s+
size_t newlines_or_spaces(const View& v, size_t at);

// \p{N}
size_t number(const View& v, size_t at);
// \p{N}+
size_t numbers(const View& v, size_t at);
// \p{N}{1,3}
size_t three_numbers(const View& v, size_t at);
// [0-9][0-9][0-9]
size_t three_digits(const View& v, size_t at);
// [\r\n]
size_t newline(const View& v, size_t at);
// [^\n]+|[\n]+
size_t line(const View& v, size_t at);

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t gpt2(const View& v, size_t at);

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
size_t llama3(const View& v, size_t at);
// The pattern of llama3, with \p{N} in place of \p{N}{1,3}
size_t qwen2(const View& v, size_t at);
// The pattern of llama3, with \p{N}+ in place of \p{N}{1,3}
size_t minicpm5(const View& v, size_t at);
// The pattern of qwen2, with [\p{L}\p{M}]+ for letters and [^\s\p{L}\p{M}\p{N}]+ for the rest
size_t qwen35(const View& v, size_t at);
// The pattern of qwen2, without [\r\n]* after signs
size_t seed_coder(const View& v, size_t at);

// With U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], S = [\p{Ll}\p{Lm}\p{Lo}\p{M}] and
// C = (?i:'s|'t|'re|'ve|'m|'ll|'d):
// [^\r\n\p{L}\p{N}]?U*S+C?|[^\r\n\p{L}\p{N}]?U+S*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
size_t gpt4o(const View& v, size_t at);
// The pattern of gpt4o, without C and with \p{N} in place of \p{N}{1,3}
size_t tekken(const View& v, size_t at);

// \s?[letters with case, and Cherokee, as of Unicode 11]+
size_t deepseek_letters(const View& v, size_t at);
// \s?[!-/:-~！-／：-～‘-‟　-。]+
size_t deepseek_signs(const View& v, size_t at);
// [一-龥ࠀ-一가-퟿]+
size_t deepseek_east_asian(const View& v, size_t at);
// \s?\p{L}+
size_t space_letters(const View& v, size_t at);
// \s?\p{P}+
size_t space_punctuation(const View& v, size_t at);
// [一-龥぀-ゟ゠-ヿ]+
size_t deepseek3_east_asian(const View& v, size_t at);
// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
// ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
size_t deepseek3(const View& v, size_t at);

// [\p{P}\$\+<=>\^~\|`]+
size_t falcon_signs(const View& v, size_t at);
// [\p{P}\$\+<=>\^~\|]+
size_t default_signs(const View& v, size_t at);
// ' ?[^(\s|.,!?…。，、।۔،)]+'
size_t bloom(const View& v, size_t at);

}  // namespace troika::text::patterns
