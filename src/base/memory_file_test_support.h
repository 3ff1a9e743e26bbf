// A file that lies in memory alone and has a path, for fuzz targets of code that opens files.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>

#include "base/error.h"

namespace troika {

class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("troika", MFD_CLOEXEC)) {
    TROIKA_ASSERT(descriptor_ >= 0);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(descriptor_); }

  // Replaces what the file holds.
  void set(std::span<const std::byte> bytes) const {
    const auto n = static_cast<off_t>(bytes.size());
    TROIKA_ASSERT(ftruncate(descriptor_, 0) == 0);
    TROIKA_ASSERT(pwrite(descriptor_, bytes.data(), bytes.size(), 0) == n);
  }
  // Returns a path by which this process may open the file to read it.
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace troika
