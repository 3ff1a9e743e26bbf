// Gives tables columns in which every name has room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string_view>

namespace troika::cli {

// Returns the width of the longest name, which `name_of` gives for a row, and `least` or more.
template <typename Rows, typename NameOf>
size_t column_width(const Rows& rows, NameOf name_of, size_t least = 0) {
  size_t width = least;
  for (const auto& row : rows) {
    width = std::max(width, std::string_view(std::invoke(name_of, row)).size());
  }
  return width;
}

}  // namespace troika::cli
