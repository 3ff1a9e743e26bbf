// Where values lie, and how lanes see them. A lane whose processor cannot map any address of this
// process may own the memory, for example a buffer shared by a driver; then all other lanes use
// this memory, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>

#include "base/huge_pages.h"

namespace troika::lanes {

class Memory {
 public:
  virtual ~Memory() = default;
  // Returns zeros, or null where there is not enough memory.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void free(std::byte* begin) noexcept = 0;
  // Returns the length of the longest piece that can be allocated.
  virtual size_t most_bytes() const { return SIZE_MAX; }
  // Says that all of a piece is taken at once, and not each page when it is first written.
  virtual bool is_taken_at_once() const { return false; }
};

// Returns a source of pieces of `memory`, which are given back when nobody holds them
// (cache::PageSource); nothing where `memory` is null. The memory must outlive the pieces.
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
    // The system zeroes this memory and backs a page when it is first touched. Prompts walk through
    // megabytes of values for each op, and looking up small pages takes some per cent of that.
    auto* const memory = static_cast<std::byte*>(std::calloc(bytes, 1));
    if (memory != nullptr) prefer_huge_pages(memory, bytes);
    return memory;
  }
  void free(std::byte* begin) noexcept override { std::free(begin); }
};

// The rows of a value, one behind the other.
struct View {
  std::byte* address;

  float* floats() const { return reinterpret_cast<float*>(address); }
};

}  // namespace troika::lanes
