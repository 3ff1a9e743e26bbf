// Makes normal random numbers that are the same on every machine.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace troika::kernels {

inline std::vector<float> random_floats(size_t n, uint32_t seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> x(n);
  for (float& value : x) value = normal(random);
  return x;
}

}  // namespace troika::kernels
