// Activations for int8 panels with a scale that is too small for their largest magnitude (N3, N4).
//
// A limit takes the place of the largest magnitude: scale = limit / 127, c = round(x / scale),
// clamped to -127 .. 127. What a clamped channel loses, the residual x - scale * c, can be kept: a
// compact list of (channel, residual) in the order of the channels, that is multiplied in float
// with the same int8 weights and added. Then nothing is lost except the rounding of values within
// the limit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/panels.h"

namespace troika::kernels {

struct Outlier {
  uint32_t channel;
  float residual;
};

// Says which scale a token takes.
struct Int8Range {
  float limit = 0.0f;
  // Every token takes this scale, even where its largest magnitude allows a smaller one.
  bool is_static = false;
};

// Multiplies residuals with weights, for some strips of a matrix: y[t][r] += scale[r] * sum. The
// sum consists of fused products residual * level in the order of the list, and begins with zero.
// Results are addressed by the absolute row, and are equal to the bit in all implementations.
struct OutlierProduct {
  size_t first_strip = 0;
  size_t last_strip = 0;
  size_t n_tokens = 0;
  const Outlier* outliers = nullptr;  // a list for each token
  size_t stride = 0;                  // counts entries from one list to the next
  const uint32_t* counts = nullptr;   // (n_tokens)
  float* y = nullptr;
  size_t y_stride = 0;
};

// Multiplies residuals where only columns of the matrix are at hand, one by one, as levels in the
// order of the rows: y[t][r] = scales[r] * sum. The result is equal to the bit to what
// OutlierProduct adds. Tokens without outliers are left as they are.
struct ChannelProduct {
  size_t first_row = 0;
  size_t last_row = 0;
  size_t n_tokens = 0;
  const Outlier* outliers = nullptr;  // a list for each token
  size_t stride = 0;                  // counts entries from one list to the next
  const uint32_t* counts = nullptr;   // (n_tokens)
  // Has for every channel that a list names the channel's level in row 0, in row 1, and so on.
  const int8_t* const* channels = nullptr;
  const float* scales = nullptr;  // (n_rows)
  float* y = nullptr;
  size_t y_stride = 0;
};

}  // namespace troika::kernels
