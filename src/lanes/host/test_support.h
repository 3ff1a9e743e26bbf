// What the tests of the host lane share.
#pragma once

#include <random>
#include <vector>

#include "lanes/lane.h"

namespace troika::lanes {

// Is told of tasks that have ended when `submit` returns.
struct Done : Completion {
  void finished(Status) override {}
};

inline std::vector<float> random_floats(size_t n, uint32_t seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> x(n);
  for (float& value : x) value = normal(random);
  return x;
}

}  // namespace troika::lanes
