#include "base/xml_text.h"

#include <cstddef>
#include <cstdint>

namespace troika {
namespace {

// Returns how many bytes the character at the beginning of the text has; 0 where it is none of XML.
size_t xml_character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  const size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < n) return 0;
  uint32_t character = first & (0x7fu >> n);
  for (size_t i = 1; i < n; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return 0;
    character = character << 6 | (next & 0x3fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = character >= 0xd800 && character <= 0xdfff;
  if (character < kLeast[n] || character > 0x10ffff || is_surrogate) return 0;
  return character == 0xfffe || character == 0xffff ? 0 : n;
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t n = xml_character_bytes(text);
    if (n != 1) {
      out += n == 0 ? "\xef\xbf\xbd" : text.substr(0, n);
      text.remove_prefix(n == 0 ? 1 : n);
      continue;
    }
    const char c = text.front();
    text.remove_prefix(1);
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace troika
