// What several of the plain kernels say about values and stretches of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace troika::kernels::reference {

inline constexpr size_t kChunk = 256;  // elements at a time: a multiple of every block length

// What is not a number counts as 0, infinity as the largest float.
inline float finite(float x) {
  constexpr float kMax = std::numeric_limits<float>::max();
  return std::isnan(x) ? 0.0f : std::clamp(x, -kMax, kMax);
}

}  // namespace troika::kernels::reference
