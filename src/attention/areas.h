// Memory of a caller divided into arrays, each of which begins at a multiple of 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/panels.h"

namespace troika::attention {

class Areas {
 public:
  // `begin` is a multiple of 64 bytes; with null, only the bytes that are taken are counted.
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

// Memory of its own that begins at a multiple of 64 bytes.
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
