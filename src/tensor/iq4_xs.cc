#include "tensor/iq4_xs.h"

#include <algorithm>
#include <cmath>

#include "tensor/scale_search.h"

namespace troika::tensor {
namespace {

constexpr int kLow = -32;
constexpr int kHigh = 31;

// Returns the multiple of d that describes a group best: the nearest to its own scale, or a
// neighbour.
int best_multiple(const float* x, float group_scale, float d) {
  const int nearest = nearest_level(group_scale, inverse_or_zero(d), kLow, kHigh);
  int best = nearest;
  float best_error = uneven_error(x, d * static_cast<float>(nearest));
  for (const int candidate : {nearest - 1, nearest + 1}) {
    if (candidate < kLow || candidate > kHigh) continue;
    const float error = uneven_error(x, d * static_cast<float>(candidate));
    if (error < best_error) {
      best_error = error;
      best = candidate;
    }
  }
  return best;
}

}  // namespace

void encode(const float* input, BlockIQ4_XS& block) {
  block = {};
  float x[256], scales[8], extreme = 0;
  copy_encodable(input, x, 256);
  for (int g = 0; g < 8; ++g) {
    scales[g] = uneven_scale(x + 32 * g);
    if (std::fabs(scales[g]) > std::fabs(extreme)) extreme = scales[g];
  }
  const float d = store_f16(extreme / static_cast<float>(kLow), block.d);
  for (int g = 0; g < 8; ++g) {
    const int multiple = best_multiple(x + 32 * g, scales[g], d);
    uint8_t &low = block.low_multiples[g / 2], &top = block.top_multiples[g / 4];
    low = static_cast<uint8_t>(low | ((multiple - kLow) & 15) << (g % 2 * 4));
    top = static_cast<uint8_t>(top | (multiple - kLow) >> 4 << (g % 4 * 2));
    uint8_t codes[32];
    nearest_uneven(x + 32 * g, inverse_or_zero(d * static_cast<float>(multiple)), codes);
    pack_nibbles(codes, block.codes + 16 * g);
  }
}

}  // namespace troika::tensor
