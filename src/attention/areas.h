// Room of a caller divided into arrays, each at a multiple of 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/panels.h"

namespace troika::attention {

class Areas {
 public:
  // Begins at a multiple of 64 bytes; null only counts what is taken.
  explicit Areas(std::byte* begin) : begin_(begin) {}

  template <typename T>
  T* take(size_t n) {
    T* const where = begin_ == nullptr ? nullptr : reinterpret_cast<T*>(begin_ + bytes_);
    bytes_ += (n * sizeof(T) + kernels::kLineBytes - 1) / kernels::kLineBytes * kernels::kLineBytes;
    return where;
  }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* begin_;
  size_t bytes_ = 0;
};

// Room of its own, at a multiple of 64 bytes.
class Workspace {
 public:
  explicit Workspace(size_t bytes) : bytes_(bytes + kernels::kLineBytes) {}
  std::byte* get() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (kernels::kLineBytes - address % kernels::kLineBytes);
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace troika::attention
