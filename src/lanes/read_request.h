// Bytes of a file for a lane that reads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troika::lanes {

// Where they go is decided per run, as a slot is.
struct ReadRequest {
  int file = 0;  // index into the files of the lane
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::byte* to = nullptr;
};

}  // namespace troika::lanes
