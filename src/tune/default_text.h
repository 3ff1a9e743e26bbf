// The text that models are measured on where nobody gives one: texts/the-river-bank.txt.
#pragma once

#include <string_view>

namespace troika::tune {

std::string_view default_text();
inline constexpr const char* kDefaultTextName = "The River Bank";

}  // namespace troika::tune
