// Activations for int8 panels whose scale is below what their largest magnitude asks for (N3, N4).
//
// A limit takes the place of the largest magnitude: scale = limit / 127, c = round(x / scale),
// clamped to -127 .. 127. What a clamped channel loses, the residual x - scale * c, can be kept:
// a compact list of (channel, residual) in the order of the channels, that is multiplied in float
// with the same int8 weights and added. Then nothing is lost but the rounding of what lies within.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/panels.h"

namespace troika::kernels {

struct Outlier {
  uint32_t channel;
  float residual;
};

// Which scale a token takes.
struct Int8Range {
  float limit = 0.0f;
  bool is_static = false;  // the same scale for every token, not its largest magnitude's where that
                           // is smaller
};

// Residuals times weights, for some strips of a matrix: y[t][r] += scale[r] * sum, where the sum is
// made of fused products residual * level in the order of the list, from zero. Results are
// addressed by the absolute row, and equal to the bit in all implementations.
struct OutlierProduct {
  size_t first_strip = 0;
  size_t last_strip = 0;
  size_t n_tokens = 0;
  const Outlier* outliers = nullptr;  // a list for each token
  size_t stride = 0;                  // from one list to the next
  const uint32_t* counts = nullptr;   // (n_tokens)
  float* y = nullptr;
  size_t y_stride = 0;
};

// The same where not the matrix is at hand but its columns are, one by one, as levels in the order
// of the rows: y[t][r] = scales[r] * sum. Equal to the bit to what OutlierProduct adds. Tokens
// without outliers are left as they are.
struct ChannelProduct {
  size_t first_row = 0;
  size_t last_row = 0;
  size_t n_tokens = 0;
  const Outlier* outliers = nullptr;  // a list for each token
  size_t stride = 0;                  // from one list to the next
  const uint32_t* counts = nullptr;   // (n_tokens)
  // For every channel that a list names: its level in row 0, in row 1, and so on.
  const int8_t* const* channels = nullptr;
  const float* scales = nullptr;  // (n_rows)
  float* y = nullptr;
  size_t y_stride = 0;
};

}  // namespace troika::kernels
