// Q4_0: blocks of 32 weights, a half-precision scale and 4-bit levels -8..7.
#pragma once

#include "tensor/half.h"
#include "tensor/scale_search.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockQ4_0 {
  static constexpr Type kType = Type::kQ4_0;
  static constexpr size_t kLength = 32;

  uint8_t d[2];
  uint8_t levels[16];  // level + 8: weight j in the low half of byte j, weight j + 16 in the high
};
static_assert(sizeof(BlockQ4_0) == 18);

inline void unpack(const BlockQ4_0& block, int8_t* q) {
  for (int j = 0; j < 16; ++j) {
    q[j] = static_cast<int8_t>((block.levels[j] & 15) - 8);
    q[j + 16] = static_cast<int8_t>((block.levels[j] >> 4) - 8);
  }
}

inline void decode(const BlockQ4_0& block, float* y) {
  const float d = load_f16(block.d);
  int8_t q[32];
  unpack(block, q);
  for (int j = 0; j < 32; ++j) y[j] = d * q[j];
}

inline void encode(const float* input, BlockQ4_0& block) {
  float x[32];
  copy_encodable(input, x, 32);
  const float d = store_f16(symmetric_scale(x, 32, -8, 7), block.d);
  const float inverse = inverse_or_zero(d);
  for (int j = 0; j < 16; ++j) {
    const int low = nearest_level(x[j], inverse, -8, 7) + 8;
    const int high = nearest_level(x[j + 16], inverse, -8, 7) + 8;
    block.levels[j] = static_cast<uint8_t>(low | high << 4);
  }
}

}  // namespace troika::tensor
