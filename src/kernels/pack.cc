#include "kernels/pack.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tensor/codec.h"

namespace troika::kernels {
namespace {

// Spreads a row over a strip, four levels at a time, and returns the sum of its levels.
int32_t spread(const uint8_t* row, size_t depth, int8_t* strip) {
  int64_t sum = 0;
  for (size_t i = 0; i < depth;) {
    // Each half of the word sums bytes, as many as surely fit its 16 bits.
    uint32_t even = 0, odd = 0;
    for (const size_t end = std::min(depth, i + 256 * kInt8LineDepth); i < end;
         i += kInt8LineDepth) {
      uint32_t four;
      std::memcpy(&four, row + i, sizeof(four));
      even += four & 0x00ff00ffu;
      odd += four >> 8 & 0x00ff00ffu;
      four ^= 0x80808080u;  // turns level + 128 into the level
      std::memcpy(strip + i * kStripRows, &four, sizeof(four));
    }
    sum += (even & 0xffffu) + (even >> 16) + (odd & 0xffffu) + (odd >> 16);
  }
  return static_cast<int32_t>(sum - 128 * static_cast<int64_t>(depth));
}

// Returns how many of k weights are outliers where this share of them is. A share such as 0.29 is a
// little less in binary, so that a product just below a whole number is that number.
size_t n_int4_outliers(double share, size_t k) {
  constexpr double kRounding = 1e-9;
  return static_cast<size_t>(share * static_cast<double>(k) + kRounding);
}

// Returns the magnitude that becomes 127 where the largest that is no outlier becomes 7. 0: all
// that is not 0 is an outlier, and the row's largest becomes 127.
float limit_of_int4(const float* row, float* magnitudes, size_t k, double outliers) {
  constexpr float kLargestLevel = 127.0f, kLargestOf4Bits = 7.0f;
  for (size_t i = 0; i < k; ++i) {
    const float magnitude = std::fabs(row[i]);
    magnitudes[i] = std::isnan(magnitude) ? 0.0f : std::min(magnitude, FLT_MAX / kLargestLevel);
  }
  const size_t n_outliers = n_int4_outliers(outliers, k);
  if (n_outliers >= k) return 0.0f;
  float* const largest = magnitudes + (k - 1 - n_outliers);
  std::nth_element(magnitudes, largest, magnitudes + k);
  return *largest * (kLargestLevel / kLargestOf4Bits);
}

}  // namespace

void pack_int8(const Table& table, Type type, const MatmulWeight& weight, PackBuffers buffers,
               int8_t* levels, float* scales, int32_t* starts, const PackRule& rule) {
  const size_t n_rows = weight.last_row - weight.first_row;
  TROIKA_ASSERT(n_rows <= kStripRows && weight.k <= kMostInt8Depth);
  if (n_rows < kStripRows) {
    std::memset(levels, 0, int8_strip_bytes(weight.k));
    std::fill_n(scales, kStripRows, 0.0f);
    std::fill_n(starts, kStripRows, 0);
  }
  for (size_t r = 0; r < n_rows; ++r) {
    const std::byte* row = weight.data + (weight.first_row + r) * weight.row_bytes;
    tensor::dequantize_row(type, row, buffers.row, weight.k);
    if (rule.factors != nullptr) {
      for (size_t i = 0; i < weight.k; ++i) buffers.row[i] *= rule.factors[i];
    }
    float limit = rule.limit;
    if (rule.int4_outliers >= 0.0) {
      limit = limit_of_int4(buffers.row, buffers.magnitudes, weight.k, rule.int4_outliers);
    }
    if (limit > 0) {
      table.quantize_int8_within(buffers.row, {.limit = limit, .is_static = true}, buffers.levels,
                                 nullptr, weight.k);
    } else {
      table.quantize_int8(buffers.row, buffers.levels, weight.k);
    }
    const Int8Token packed = int8_token(buffers.levels, weight.k);
    scales[r] = *packed.scale;
    starts[r] = -128 * spread(packed.levels, int8_depth(weight.k), levels + r * kInt8LineDepth);
  }
}

void pack_strip(const Table& table, Type type, const MatmulWeight& weight, const Int8Strip& strip) {
  TROIKA_ASSERT(weight.last_row - weight.first_row <= kStripRows && weight.k <= kMostInt8Depth);
  float largest[kStripRows];
  for (size_t r = weight.first_row; r < weight.last_row; ++r) {
    largest[r - weight.first_row] =
        find(table.largest_of_row, type)(weight.data + r * weight.row_bytes, weight.k);
  }
  find(table.unpack_int8, type)(weight, largest, strip);
}

}  // namespace troika::kernels
