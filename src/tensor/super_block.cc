#include "tensor/super_block.h"

#include <algorithm>
#include <cmath>

#include "tensor/half.h"
#include "tensor/scale_search.h"

namespace troika::tensor {
namespace {

constexpr size_t kLeastGroup = 16;
constexpr size_t kMostGroups = kSuperBlock / kLeastGroup;

// Returns the multiples of d and dmin that describe a group best: the nearest to its own fit, or
// their neighbours.
Multiples best_multiples(const float* x, const AffineShape& shape, ScaleAndMin fit, float d,
                         float dmin) {
  const int scale = nearest_level(fit.scale, inverse_or_zero(d), 0, shape.max_multiple);
  const int min = nearest_level(fit.min, inverse_or_zero(dmin), 0, shape.max_multiple);
  Multiples best{static_cast<uint8_t>(scale), static_cast<uint8_t>(min)};
  float best_error = -1;
  for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, shape.max_multiple); ++s) {
    for (int m = std::max(min - 1, 0); m <= std::min(min + 1, shape.max_multiple); ++m) {
      const float error = affine_error(x, shape.group, shape.high,
                                       {d * static_cast<float>(s), dmin * static_cast<float>(m)});
      if (best_error < 0 || error < best_error) {
        best_error = error;
        best = {static_cast<uint8_t>(s), static_cast<uint8_t>(m)};
      }
    }
  }
  return best;
}

// Returns sum (x - scale q)^2 over a group of 16, with the best q.
float symmetric_error(const float* x, const SymmetricShape& shape, float scale) {
  const float inverse = inverse_or_zero(scale);
  float error = 0;
  for (size_t i = 0; i < kLeastGroup; ++i) {
    const float difference =
        x[i] - scale * static_cast<float>(nearest_level(x[i], inverse, shape.low, shape.high));
    error += difference * difference;
  }
  return error;
}

// Returns the multiple of d that describes a group best: the nearest to its own scale, or a
// neighbour.
int best_multiple(const float* x, const SymmetricShape& shape, float group_scale, float d) {
  const int nearest =
      nearest_level(group_scale, inverse_or_zero(d), shape.low_multiple, shape.high_multiple);
  int best = nearest;
  float best_error = symmetric_error(x, shape, d * static_cast<float>(nearest));
  for (int candidate : {nearest - 1, nearest + 1}) {
    if (candidate < shape.low_multiple || candidate > shape.high_multiple) continue;
    const float error = symmetric_error(x, shape, d * static_cast<float>(candidate));
    if (error < best_error) {
      best_error = error;
      best = candidate;
    }
  }
  return best;
}

}  // namespace

void fit_affine(const float* input, const AffineShape& shape, uint8_t* d_bytes, uint8_t* dmin_bytes,
                Multiples* multiples, uint8_t* levels) {
  float x[kSuperBlock];
  copy_encodable(input, x, kSuperBlock);
  const size_t n_groups = kSuperBlock / shape.group;
  ScaleAndMin fits[kMostGroups];
  float max_scale = 0, max_min = 0;
  for (size_t g = 0; g < n_groups; ++g) {
    fits[g] = scale_and_min(x + shape.group * g, shape.group, shape.high, MinSign::kNotNegative);
    max_scale = std::max(max_scale, fits[g].scale);
    max_min = std::max(max_min, fits[g].min);
  }
  const auto most = static_cast<float>(shape.max_multiple);
  const float d = store_f16(max_scale / most, d_bytes);
  const float dmin = store_f16(max_min / most, dmin_bytes);
  for (size_t g = 0; g < n_groups; ++g) {
    const float* group = x + shape.group * g;
    multiples[g] = best_multiples(group, shape, fits[g], d, dmin);
    const float inverse = inverse_or_zero(d * multiples[g].scale);
    const float min = dmin * multiples[g].min;
    for (size_t i = 0; i < shape.group; ++i) {
      levels[shape.group * g + i] =
          static_cast<uint8_t>(nearest_level(group[i] + min, inverse, 0, shape.high));
    }
  }
}

void fit_symmetric(const float* input, const SymmetricShape& shape, uint8_t* d_bytes,
                   int8_t* multiples, int8_t* levels) {
  float x[kSuperBlock];
  copy_encodable(input, x, kSuperBlock);
  float scales[kMostGroups];
  float extreme = 0;
  for (size_t g = 0; g < kMostGroups; ++g) {
    scales[g] = symmetric_scale(x + kLeastGroup * g, kLeastGroup, shape.low, shape.high);
    if (std::fabs(scales[g]) > std::fabs(extreme)) extreme = scales[g];
  }
  const float d = store_f16(extreme / static_cast<float>(shape.low_multiple), d_bytes);
  for (size_t g = 0; g < kMostGroups; ++g) {
    const float* group = x + kLeastGroup * g;
    const int multiple = best_multiple(group, shape, scales[g], d);
    multiples[g] = static_cast<int8_t>(multiple);
    const float inverse = inverse_or_zero(d * static_cast<float>(multiple));
    for (size_t i = 0; i < kLeastGroup; ++i) {
      levels[kLeastGroup * g + i] =
          static_cast<int8_t>(nearest_level(group[i], inverse, shape.low, shape.high));
    }
  }
}

}  // namespace troika::tensor
