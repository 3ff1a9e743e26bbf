// Recognizes marks that come in parts.
#pragma once

#include <algorithm>
#include <string_view>

namespace troika::server {

// Counts the bytes at the end of the text that may be the beginning of the mark.
inline size_t possible_bytes(std::string_view text, std::string_view mark) {
  for (size_t n = std::min(text.size(), mark.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == mark.substr(0, n)) return n;
  }
  return 0;
}

}  // namespace troika::server
