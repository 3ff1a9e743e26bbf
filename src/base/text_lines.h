// Estimates how wide texts of pictures are, and breaks them into lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troika {

// Are the widths of a letter of a sans-serif font of 1 pixel: of words, of words in bold letters,
// and of digits. They are estimated generously, because whoever shows a picture chooses the font.
inline constexpr double kCharWidth = 0.54;
inline constexpr double kBoldWidth = 0.6;
inline constexpr double kDigitWidth = 0.64;

// Returns the width of a text in UTF-8, in pixels, whose letters are `size` pixels large.
double text_width(std::string_view text, double size, double char_width = kCharWidth);

// Breaks a text at spaces into lines of less than `width` pixels, as far as its words allow.
std::vector<std::string> lines_of(std::string_view text, double size, double char_width,
                                  double width);

}  // namespace troika
