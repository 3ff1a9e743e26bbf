// What several of the plain kernels need to read values in stretches.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace troika::kernels::reference {

// Counts elements of a stretch: a multiple of every block length.
inline constexpr size_t kChunk = 256;

// Is the scale of activations that are not all finite, so that what is made of them is no number.
inline constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

// Returns 0 for what is not a number, and the largest float for infinity.
inline float finite(float x) {
  constexpr float kMax = std::numeric_limits<float>::max();
  return std::isnan(x) ? 0.0f : std::clamp(x, -kMax, kMax);
}

}  // namespace troika::kernels::reference
