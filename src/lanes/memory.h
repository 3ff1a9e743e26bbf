// Where values lie, and how lanes see them: a lane whose processor cannot map any address of this
// process may own the memory, as a driver's shared buffer, which all others then use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>

#include "tensor/type.h"

namespace troika::lanes {

class Memory {
 public:
  virtual ~Memory() = default;
  // Zeros; null where there are not so many. Pages should be taken only when they are first
  // written.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void free(std::byte* begin) noexcept = 0;
  // What the lane's driver calls a piece that was allocated; 0 for plain memory.
  virtual uint64_t handle_of(const std::byte* /*begin*/) const { return 0; }
  // No piece may be longer.
  virtual size_t most_bytes() const { return SIZE_MAX; }
};

// Pieces of memory that are given back when nobody holds them (cache::PageSource); nothing where
// `memory` is null. It must outlive them.
inline std::function<std::shared_ptr<std::byte>(size_t)> pieces_of(Memory* memory) {
  if (memory == nullptr) return {};
  return [memory](size_t bytes) {
    std::byte* const begin = memory->allocate(bytes);
    if (begin == nullptr) return std::shared_ptr<std::byte>();
    return std::shared_ptr<std::byte>(begin, [memory](std::byte* piece) { memory->free(piece); });
  };
}

// Takes memory of this process.
class PlainMemory : public Memory {
 public:
  std::byte* allocate(size_t bytes) override {
    // Zeroed by the system, which gives a page its memory when it is first touched.
    return static_cast<std::byte*>(std::calloc(bytes, 1));
  }
  void free(std::byte* begin) noexcept override { std::free(begin); }
};

// Rows of a value. An address is for lanes of this process, a handle with an offset for a driver.
struct View {
  std::byte* address;
  uint64_t handle;      // see Memory
  size_t offset_bytes;  // of the address from where the handle's memory begins
  tensor::Type type;
  size_t row_bytes;  // from one row to the next

  // REQUIRES: that is its type.
  float* floats() const { return reinterpret_cast<float*>(address); }
};

}  // namespace troika::lanes
