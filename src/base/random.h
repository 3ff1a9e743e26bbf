// Random numbers that depend only on a key and a counter, so that the same seed gives the same
// values in whatever place and order they are asked for.
#pragma once

#include <cstdint>

namespace troika {

// Returns a well-mixed 64-bit value of (key, counter).
constexpr uint64_t random_bits(uint64_t key, uint64_t counter) {
  uint64_t z = key * 0x9E3779B97F4A7C15u + counter;
  for (int round = 0; round < 2; ++round) {
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
  }
  return z;
}

// Returns a number, uniform in [0, 1).
constexpr double random_unit(uint64_t key, uint64_t counter) {
  return static_cast<double>(random_bits(key, counter) >> 11) * 0x1p-53;
}

}  // namespace troika
