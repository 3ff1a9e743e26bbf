#include "tensor/q4_k.h"

#include <algorithm>

#include "tensor/scale_search.h"

namespace troika::tensor {
namespace {

constexpr int kHigh = 15;
constexpr int kMaxMultiple = 63;
constexpr int kGroups = 8;
constexpr int kGroup = 32;

// The multiples of d and dmin that describe a group best: the nearest to its own fit, or
// neighbours of these.
GroupScale best_multiples(const float* x, ScaleAndMin fit, float d, float dmin) {
  const int scale = nearest_level(fit.scale, inverse_or_zero(d), 0, kMaxMultiple);
  const int min = nearest_level(fit.min, inverse_or_zero(dmin), 0, kMaxMultiple);
  GroupScale best{static_cast<uint8_t>(scale), static_cast<uint8_t>(min)};
  float best_error = -1;
  for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, kMaxMultiple); ++s) {
    for (int m = std::max(min - 1, 0); m <= std::min(min + 1, kMaxMultiple); ++m) {
      const float error =
          affine_error(x, kGroup, kHigh, {d * static_cast<float>(s), dmin * static_cast<float>(m)});
      if (best_error < 0 || error < best_error) {
        best_error = error;
        best = {static_cast<uint8_t>(s), static_cast<uint8_t>(m)};
      }
    }
  }
  return best;
}

void store_group_scale(BlockQ4_K& block, int group, GroupScale value) {
  uint8_t* s = block.scales;
  if (group < 4) {
    s[group] |= value.scale;
    s[group + 4] |= value.min;
  } else {
    s[group + 4] = static_cast<uint8_t>((value.scale & 15) | (value.min & 15) << 4);
    s[group - 4] |= static_cast<uint8_t>(value.scale >> 4 << 6);
    s[group] |= static_cast<uint8_t>(value.min >> 4 << 6);
  }
}

}  // namespace

void encode(const float* input, BlockQ4_K& block) {
  block = {};
  float x[256];
  copy_encodable(input, x, 256);
  ScaleAndMin fits[kGroups];
  float max_scale = 0, max_min = 0;
  for (int g = 0; g < kGroups; ++g) {
    fits[g] = scale_and_min(x + kGroup * g, kGroup, kHigh);
    max_scale = std::max(max_scale, fits[g].scale);
    max_min = std::max(max_min, fits[g].min);
  }
  const float d = store_f16(max_scale / kMaxMultiple, block.d);
  const float dmin = store_f16(max_min / kMaxMultiple, block.dmin);
  for (int g = 0; g < kGroups; ++g) {
    const GroupScale multiple = best_multiples(x + kGroup * g, fits[g], d, dmin);
    store_group_scale(block, g, multiple);
    const float inverse = inverse_or_zero(d * multiple.scale);
    const float min = dmin * multiple.min;
    for (int i = 0; i < kGroup; ++i) {
      const int level = nearest_level(x[kGroup * g + i] + min, inverse, 0, kHigh);
      block.levels[g / 2 * 32 + i] |= static_cast<uint8_t>(level << (g % 2 * 4));
    }
  }
}

}  // namespace troika::tensor
