// Characters that become several in capitals, as ß and the ligatures do.
#pragma once

#include <cstdint>

namespace troika::jinja {

// Zeros follow the characters of `upper` and `title`.
struct SpecialCase {
  uint16_t c;
  uint16_t upper[3];
  uint16_t title[3];  // is only zeros where a single character begins words
};

// Returns the case of the character, or nullptr where it becomes a single one.
const SpecialCase* find_special_case(uint32_t c);

}  // namespace troika::jinja
