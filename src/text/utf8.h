// Reads UTF-8 characters from bytes that may be anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troika::text {

inline constexpr uint32_t kReplacement = 0xfffd;

struct Utf8Char {
  uint32_t code;  // kReplacement where the bytes are invalid
  uint8_t bytes;  // counts the bytes of the character; 1 where they are invalid
  bool valid;
};

// Returns the character at the beginning of `bytes`, which is not empty. Surrogates, overlong forms
// and values beyond U+10FFFF are invalid.
Utf8Char decode_utf8(std::string_view bytes);

// Appends the character. Precondition: code <= 0x10ffff and no surrogate.
void append_utf8(uint32_t code, std::string* out);

// Replaces invalid bytes by U+FFFD: one for each longest run that could have begun a character.
std::string replace_invalid_utf8(std::string_view bytes);

// Returns how many bytes at the end of `bytes`, 0 to 3, are the beginning of a character that
// further bytes may complete.
size_t incomplete_utf8_tail(std::string_view bytes);

}  // namespace troika::text
