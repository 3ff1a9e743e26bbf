// Finds cache lines in memory that may begin anywhere.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troika {

inline constexpr size_t kCacheLineBytes = 64;

// Returns the first of these values that begins a cache line. Whoever takes the memory takes
// kCacheLineBytes more than it needs. REQUIRES: values begin at a multiple of their size, by which
// a line can be divided.
template <typename T>
T* at_cache_line(T* values) {
  static_assert(kCacheLineBytes % sizeof(T) == 0);
  const auto address = reinterpret_cast<uintptr_t>(values);
  const size_t before = (kCacheLineBytes - address % kCacheLineBytes) % kCacheLineBytes;
  return values + before / sizeof(T);
}

}  // namespace troika
