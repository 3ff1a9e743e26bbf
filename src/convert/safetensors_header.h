// Reads the JSON header of a safetensors file event by event. What does not belong there is refused
// where it stands, so neither depth nor size of the text costs more than the text itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troika::convert {

struct HeaderTensor {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;  // count from the beginning of the data section
};

// Throws Error, with `file` in its message, for text that is no such header. Names, shapes and
// offsets are as the text has them; no name stands twice.
std::vector<HeaderTensor> read_safetensors_header(std::string_view text, std::string_view file);

}  // namespace troika::convert
