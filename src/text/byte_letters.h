// Converts bytes to the letters of byte-level BPE, which writes each byte as a printable character
// (GPT-2's table): printable Latin-1 stands for itself, the other bytes are U+0100 and up in order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troika::text {

// Returns the letter that stands for a byte, in UTF-8.
std::string letter_of_byte(uint8_t byte);

// Finds the bytes that a token's text spells. Returns false if one of its characters stands for no
// byte.
bool bytes_from_letters(std::string_view letters, std::string* bytes);

}  // namespace troika::text
