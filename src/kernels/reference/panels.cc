#include "kernels/reference/panels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/reference/values.h"
#include "tensor/codec.h"
#include "tensor/half.h"

namespace troika::kernels::reference {
namespace {

// Makes levels from values whose largest magnitude is known.
struct Int8Scale {
  float inverse = 0.0f;  // the inverse of the scale
  float scale = 0.0f;
  explicit Int8Scale(float largest) {
    if (std::isnan(largest)) scale = kNoNumber;
    if (!(largest >= kQ8Smallest)) return;
    inverse = 127.0f / largest;
    scale = largest / 127.0f;
  }
  int level(float x) const { return static_cast<int>(std::nearbyint(finite(x) * inverse)); }
};

// Calls body(index, value) for the weights of a row.
template <typename Body>
void for_each_weight(Type type, const std::byte* row, size_t k, Body body) {
  for (size_t i = 0; i < k; i += kChunk) {
    const size_t n = std::min(kChunk, k - i);
    float w[kChunk];
    tensor::dequantize_row(type, row + tensor::row_bytes(type, i), w, n);
    for (size_t j = 0; j < n; ++j) body(i + j, w[j]);
  }
}

}  // namespace

void quantize_int8(const float* x, std::byte* y, size_t k) {
  const Int8Token token = int8_token(y, k);
  auto* levels = const_cast<uint8_t*>(token.levels);
  float largest = 0;
  for (size_t i = 0; i < k; ++i) largest = std::max(largest, std::fabs(finite(x[i])));
  const bool are_all_finite =
      std::all_of(x, x + k, [](float value) { return std::isfinite(value); });
  const Int8Scale scale(are_all_finite ? largest : kNoNumber);
  for (size_t i = 0; i < int8_depth(k); ++i) {
    levels[i] = static_cast<uint8_t>(i < k ? scale.level(x[i]) + 128 : 128);
  }
  *const_cast<float*>(token.scale) = scale.scale;
}

void narrow_bf16(const float* x, std::byte* y, size_t k) {
  auto* levels = reinterpret_cast<uint16_t*>(y);
  for (size_t i = 0; i < bf16_depth(k); ++i) levels[i] = i < k ? tensor::f32_to_bf16(x[i]) : 0;
}

void matmul_int8(const Int8Panels& weight, const PanelProduct& product) {
  const size_t last_row = std::min(product.last_strip * kStripRows, weight.n_rows);
  for (size_t r = product.first_strip * kStripRows; r < last_row; ++r) {
    const size_t strip = r / kStripRows;
    const int8_t* levels = weight.levels_of(strip) + r % kStripRows * kInt8LineDepth;
    const float scale = weight.scales_of(strip)[r % kStripRows];
    for (size_t t = 0; t < product.n_tokens; ++t) {
      const Int8Token x = int8_token(product.x + t * product.x_stride_bytes, weight.k);
      int32_t sum = 0;
      for (size_t i = 0; i < weight.k; ++i) {
        const int8_t level = levels[i / kInt8LineDepth * kLineBytes + i % kInt8LineDepth];
        sum += level * (x.levels[i] - 128);
      }
      float value = static_cast<float>(sum) * *x.scale * scale;
      if (product.bias != nullptr) value += product.bias[r];
      product.y[t * product.y_stride + r] = value;
    }
  }
}

void matmul_bf16(const Bf16Stretch& weight, const PanelProduct& product) {
  const size_t first_row = product.first_strip * kStripRows;
  const size_t last_row = std::min(product.last_strip * kStripRows, weight.n_rows);
  for (size_t r = first_row; r < last_row; ++r) {
    const uint16_t* w = weight.panel + (r - first_row) / kStripRows * kStripRows * weight.n_k +
                        r % kStripRows * kBf16LineDepth;
    for (size_t t = 0; t < product.n_tokens; ++t) {
      const auto* x = reinterpret_cast<const uint16_t*>(product.x + t * product.x_stride_bytes);
      float& y = product.y[t * product.y_stride + r];
      // The sum is a float, so that it makes no difference where a stretch ends.
      float sum = weight.is_first ? 0.0f : y;
      for (size_t i = 0; i < weight.n_k; ++i) {
        const uint16_t level = w[i / kBf16LineDepth * kLineBytes / 2 + i % kBf16LineDepth];
        sum += tensor::bf16_to_f32(level) * tensor::bf16_to_f32(x[i]);
      }
      y = sum;
      if (weight.is_last && product.bias != nullptr) y += product.bias[r];
    }
  }
}

void unpack_bf16(Type type, const MatmulWeight& weight, size_t first_k, size_t n_k,
                 uint16_t* strip) {
  std::memset(strip, 0, n_k * kStripRows * sizeof(uint16_t));
  const size_t last_k = std::min(first_k + n_k, weight.k);
  for (size_t r = weight.first_row; r < weight.last_row; ++r) {
    const std::byte* row = weight.data + r * weight.row_bytes;
    for (size_t i = first_k; i < last_k; i += kChunk) {
      const size_t n = std::min(kChunk, weight.k - i);
      float w[kChunk];
      tensor::dequantize_row(type, row + tensor::row_bytes(type, i), w, n);
      for (size_t j = 0; j < std::min(n, last_k - i); ++j) {
        const size_t at = i - first_k + j;
        strip[at / 2 * kLineBytes / 2 + (r - weight.first_row) * 2 + at % 2] =
            tensor::f32_to_bf16(w[j]);
      }
    }
  }
}

float largest_of_row(Type type, const std::byte* row, size_t k) {
  float largest = 0;
  bool are_all_finite = true;
  for_each_weight(type, row, k, [&](size_t, float w) {
    are_all_finite = are_all_finite && std::isfinite(w);
    largest = std::max(largest, std::fabs(finite(w)));
  });
  return are_all_finite ? largest : kNoNumber;
}

void unpack_int8(Type type, const MatmulWeight& weight, const float* largest,
                 const Int8Strip& strip) {
  std::memset(strip.levels, 0, int8_strip_bytes(weight.k));
  std::fill_n(strip.scales, kStripRows, 0.0f);
  std::fill_n(strip.starts, kStripRows, 0);
  for (size_t r = 0; r < weight.last_row - weight.first_row; ++r) {
    const Int8Scale scale(largest[r]);
    int32_t sum = 0;
    for_each_weight(
        type, weight.data + (weight.first_row + r) * weight.row_bytes, weight.k,
        [&](size_t i, float w) {
          const int level = scale.level(w);
          strip.levels[i / kInt8LineDepth * kLineBytes + r * kInt8LineDepth + i % kInt8LineDepth] =
              static_cast<int8_t>(level);
          sum += level;
        });
    strip.scales[r] = scale.scale;
    strip.starts[r] = -128 * sum;
  }
}

}  // namespace troika::kernels::reference
