// Finds cache lines in memory that may begin anywhere, and asks for lines before they are written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troika {

inline constexpr size_t kCacheLineBytes = 64;
inline constexpr size_t kFloatsOfLine = kCacheLineBytes / sizeof(float);

// Returns the least multiple of a line's bytes, or of its floats, that is not less.
constexpr size_t whole_lines(size_t n_bytes) {
  return (n_bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}
constexpr size_t whole_lines_of_floats(size_t n_floats) {
  return whole_lines(n_floats * sizeof(float)) / sizeof(float);
}

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

// Asks other cores for a line that this one will write, and does not wait. An x86 processor that
// does not know the instruction takes it for none.
inline void ask_to_write(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace troika
