// Random numbers for weights.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace troika::forge {

// Returns a number that is close to normal with mean 0 and variance 1, within +-5. It sums uniform
// integers, which are the same on every machine, as logarithms and cosines are not.
inline float random_normal(uint64_t key, uint64_t counter) {
  int64_t sum = 0;
  for (uint64_t half = 0; half < 2; ++half) {
    const uint64_t bits = random_bits(key, 2 * counter + half);
    for (int shift = 0; shift < 64; shift += 16) {
      sum += static_cast<int64_t>(bits >> shift & 0xffff);
    }
  }
  constexpr int64_t kTwiceMean = 8 * 65535;
  // This is half of 1 / sqrt(8 * 65536^2 / 12), because the sum is doubled.
  constexpr float kScale = 9.34406e-6F;
  return static_cast<float>(2 * sum - kTwiceMean) * kScale;
}

}  // namespace troika::forge
