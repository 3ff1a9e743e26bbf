#include "tensor/q6_k.h"

#include <algorithm>
#include <cmath>

#include "tensor/scale_search.h"

namespace troika::tensor {
namespace {

constexpr int kLow = -32;
constexpr int kHigh = 31;

// sum (x - scale q)^2 over a group, with the best q.
float group_error(const float* x, float scale) {
  const float inverse = inverse_or_zero(scale);
  float error = 0;
  for (size_t i = 0; i < BlockQ6_K::kGroup; ++i) {
    const float difference =
        x[i] - scale * static_cast<float>(nearest_level(x[i], inverse, kLow, kHigh));
    error += difference * difference;
  }
  return error;
}

// The multiple of d that describes a group best: the nearest to its own scale, or a neighbour.
int8_t best_multiple(const float* x, float group_scale, float d) {
  const int nearest = nearest_level(group_scale, inverse_or_zero(d), -128, 127);
  int best = nearest;
  float best_error = group_error(x, d * static_cast<float>(nearest));
  for (int candidate : {nearest - 1, nearest + 1}) {
    if (candidate < -128 || candidate > 127) continue;
    const float error = group_error(x, d * static_cast<float>(candidate));
    if (error < best_error) {
      best_error = error;
      best = candidate;
    }
  }
  return static_cast<int8_t>(best);
}

void store_level(BlockQ6_K& block, int i, int level) {
  const int half = i / 128, quarter = i / 32 % 4, l = i % 32;
  const int bits = level - kLow;
  block.low[half * 64 + quarter % 2 * 32 + l] |=
      static_cast<uint8_t>((bits & 15) << (quarter / 2 * 4));
  block.high[half * 32 + l] |= static_cast<uint8_t>(bits >> 4 << (quarter * 2));
}

}  // namespace

void encode(const float* input, BlockQ6_K& block) {
  block = {};
  float x[256];
  copy_encodable(input, x, 256);
  float scales[16];
  float extreme = 0;
  for (int g = 0; g < 16; ++g) {
    scales[g] = symmetric_scale(x + 16 * g, 16, kLow, kHigh);
    if (std::fabs(scales[g]) > std::fabs(extreme)) extreme = scales[g];
  }
  const float d = store_f16(extreme / -128, block.d);
  for (int g = 0; g < 16; ++g) {
    block.scales[g] = best_multiple(x + 16 * g, scales[g], d);
    const float inverse = inverse_or_zero(d * block.scales[g]);
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      store_level(block, i, nearest_level(x[i], inverse, kLow, kHigh));
    }
  }
}

}  // namespace troika::tensor
