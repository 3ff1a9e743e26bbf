// A read for a lane that reads: some bytes of a file, and where they go.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troika::lanes {

// Where the bytes go is decided per run.
struct ReadRequest {
  int file = 0;  // index into the lane's files
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::byte* to = nullptr;
};

}  // namespace troika::lanes
