// Characters in UTF-8 text, where a byte that is not UTF-8 counts as one character of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troika::jinja {

// Is what decode returns for a byte that is not UTF-8: it is above every code point, so that it is
// no letter, digit or space, and encode gives the byte back.
inline constexpr uint32_t kRawByte = 0x80000000;

size_t utf8_length(std::string_view s);
// Returns the code point at byte `i` (precondition: i < s.size()), and moves i behind it.
uint32_t utf8_next(std::string_view s, size_t& i);
// Moves i (precondition: i > 0) to the character in front of byte `i`, and returns its code point.
uint32_t utf8_previous(std::string_view s, size_t& i);
void utf8_append(std::string& out, uint32_t code_point);
std::vector<uint32_t> utf8_decode(std::string_view s);
// Returns the byte where character `n` begins, or s.size().
size_t utf8_offset(std::string_view s, size_t n);

// These see a character as Python's str methods of these names do.
bool is_space(uint32_t c);
bool is_alpha(uint32_t c);
bool is_digit(uint32_t c);
bool is_decimal(uint32_t c);
bool is_numeric(uint32_t c);
bool is_upper(uint32_t c);
bool is_lower(uint32_t c);
bool is_title(uint32_t c);
bool is_printable(uint32_t c);
void append_upper(std::string& out, uint32_t c);
void append_title(std::string& out, uint32_t c);
// Appends the character at byte `at` of s. What is around it in s says whether a sigma ends a word.
void append_lower(std::string& out, std::string_view s, size_t at);

std::string to_upper(std::string_view s);
std::string to_lower(std::string_view s);
std::string casefold(std::string_view s);
std::string capitalize(std::string_view s);
// Returns the text with a capital at the beginning of each word; a word is a run of letters, as for
// str.title.
std::string title(std::string_view s);
std::string_view strip_space(std::string_view s, bool left, bool right);

}  // namespace troika::jinja
