#include "kernels/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tensor/codec.h"

namespace troika::kernels {

void pack_int8(Type type, const MatmulWeight& weight, float* buffer, int8_t* levels, float* scales,
               int32_t* starts) {
  const size_t k = weight.k;
  const size_t n_rows = weight.last_row - weight.first_row;
  TROIKA_ASSERT(n_rows <= kPanelRows && k <= kMostInt8Depth);
  std::memset(levels, 0, int8_strip_bytes(k));
  std::fill_n(scales, kPanelRows, 0.0f);
  std::fill_n(starts, kPanelRows, 0);
  for (size_t r = 0; r < n_rows; ++r) {
    tensor::dequantize_row(type, weight.data + (weight.first_row + r) * weight.row_bytes, buffer,
                           k);
    float largest = 0;  // stays what it was where an element is no number
    for (size_t i = 0; i < k; ++i) largest = std::max(largest, std::fabs(buffer[i]));
    if (!(largest >= kQ8Smallest && std::isfinite(largest))) largest = 0;
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    int32_t sum = 0;
    for (size_t i = 0; i < k; ++i) {
      const float level = std::nearbyint(buffer[i] * inverse);
      const int32_t whole = std::fabs(level) <= 127.0f ? static_cast<int32_t>(level) : 0;
      sum += whole;
      levels[i / kInt8LineDepth * kLineBytes + r * kInt8LineDepth + i % kInt8LineDepth] =
          static_cast<int8_t>(whole);
    }
    scales[r] = largest / 127.0f;
    starts[r] = -128 * sum;
  }
}

}  // namespace troika::kernels
