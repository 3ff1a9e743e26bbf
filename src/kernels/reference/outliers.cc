#include "kernels/reference/outliers.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/values.h"

namespace troika::kernels::reference {
size_t quantize_int8_within(const float* x, Int8Range range, std::byte* y, Outlier* outliers,
                            size_t k) {
  const Int8Token token = int8_token(y, k);
  auto* levels = const_cast<uint8_t*>(token.levels);
  float largest = 0;
  for (size_t i = 0; i < k; ++i) largest = std::max(largest, std::fabs(finite(x[i])));
  const float most = range.is_static ? range.limit : std::min(largest, range.limit);
  const bool some = most >= kQ8Smallest;
  const float inverse = some ? 127.0f / most : 0.0f;
  const float scale = some ? most / 127.0f : 0.0f;
  size_t n_outliers = 0;
  bool are_all_finite = true;
  for (size_t i = 0; i < int8_depth(k); ++i) {
    const float value = i < k ? finite(x[i]) : 0.0f;
    are_all_finite = are_all_finite && (i >= k || std::isfinite(x[i]));
    const float level = std::nearbyint(value * inverse);
    const float c = std::clamp(level, -127.0f, 127.0f);
    levels[i] = static_cast<uint8_t>(static_cast<int>(c) + 128);
    if (level != c && outliers != nullptr) {
      outliers[n_outliers++] = {static_cast<uint32_t>(i), value - c * scale};
    }
  }
  *const_cast<float*>(token.scale) = are_all_finite ? scale : kNoNumber;
  return n_outliers;
}

void add_outliers(const Int8Panels& weight, const OutlierProduct& product) {
  const size_t last_row = std::min(product.last_strip * kStripRows, weight.n_rows);
  for (size_t r = product.first_strip * kStripRows; r < last_row; ++r) {
    const int8_t* levels = weight.levels_of(r / kStripRows) + r % kStripRows * kInt8LineDepth;
    for (size_t t = 0; t < product.n_tokens; ++t) {
      if (product.counts[t] == 0) continue;
      const Outlier* outliers = product.outliers + t * product.stride;
      float sum = 0;
      for (uint32_t i = 0; i < product.counts[t]; ++i) {
        const size_t channel = outliers[i].channel;
        const int8_t level =
            levels[channel / kInt8LineDepth * kLineBytes + channel % kInt8LineDepth];
        sum = std::fma(outliers[i].residual, static_cast<float>(level), sum);
      }
      product.y[t * product.y_stride + r] += sum * weight.scales_of(r / kStripRows)[r % kStripRows];
    }
  }
}

void multiply_channels(const ChannelProduct& product) {
  for (size_t t = 0; t < product.n_tokens; ++t) {
    if (product.counts[t] == 0) continue;
    const Outlier* outliers = product.outliers + t * product.stride;
    for (size_t r = product.first_row; r < product.last_row; ++r) {
      float sum = 0;
      for (uint32_t i = 0; i < product.counts[t]; ++i) {
        const auto level = static_cast<float>(product.channels[outliers[i].channel][r]);
        sum = std::fma(outliers[i].residual, level, sum);
      }
      product.y[t * product.y_stride + r] = sum * product.scales[r];
    }
  }
}

}  // namespace troika::kernels::reference
