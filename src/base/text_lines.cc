#include "base/text_lines.h"

#include <algorithm>

namespace troika {

double text_width(std::string_view text, double size, double char_width) {
  const auto is_first_byte = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  const auto n_letters = std::count_if(text.begin(), text.end(), is_first_byte);
  return char_width * size * static_cast<double>(n_letters);
}

std::vector<std::string> lines_of(std::string_view text, double size, double char_width,
                                  double width) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const bool fits = !lines.empty() && text_width(lines.back(), size, char_width) +
                                                text_width(word, size, char_width) <
                                            width - size;
    if (fits) {
      lines.back().append(" ").append(word);
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

}  // namespace troika
