#include "text/byte_letters.h"

#include <array>

#include "text/utf8.h"

namespace troika::text {
namespace {

constexpr bool is_printable(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

constexpr std::array<uint16_t, 256> make_codes() {
  std::array<uint16_t, 256> codes{};
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    codes[byte] = is_printable(byte) ? static_cast<uint16_t>(byte) : next++;
  }
  return codes;
}

constexpr std::array<uint16_t, 256> kCodes = make_codes();

constexpr std::array<int16_t, 0x144> make_bytes() {
  std::array<int16_t, 0x144> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[kCodes[byte]] = static_cast<int16_t>(byte);
  return bytes;
}

constexpr std::array<int16_t, 0x144> kBytes = make_bytes();

}  // namespace

std::string letter_of_byte(uint8_t byte) {
  std::string letter;
  append_utf8(kCodes[byte], &letter);
  return letter;
}

bool bytes_from_letters(std::string_view letters, std::string* bytes) {
  bytes->clear();
  for (size_t at = 0; at < letters.size();) {
    const Utf8Char c = decode_utf8(letters.substr(at));
    if (!c.valid || c.code >= kBytes.size() || kBytes[c.code] < 0) return false;
    bytes->push_back(static_cast<char>(kBytes[c.code]));
    at += c.bytes;
  }
  return true;
}

}  // namespace troika::text
