// Q5_0: blocks of 32 weights, a half-precision scale and 5-bit levels -16..15.
#pragma once

#include "tensor/half.h"
#include "tensor/scale_search.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockQ5_0 {
  static constexpr Type kType = Type::kQ5_0;
  static constexpr size_t kLength = 32;

  uint8_t d[2];
  uint8_t top_bits[4];  // bit j is the fifth bit of weight j, little-endian
  uint8_t levels[16];   // the four low bits of level + 16: as in Q4_0
};
static_assert(sizeof(BlockQ5_0) == 22);

inline void unpack(const BlockQ5_0& block, int8_t* q) {
  uint32_t top_bits = 0;
  for (int i = 0; i < 4; ++i) top_bits |= static_cast<uint32_t>(block.top_bits[i]) << (8 * i);
  for (int j = 0; j < 16; ++j) {
    const uint32_t top_of_low = top_bits >> j & 1, top_of_high = top_bits >> (j + 16) & 1;
    const uint32_t low = (block.levels[j] & 15u) | top_of_low << 4;
    const uint32_t high = static_cast<uint32_t>(block.levels[j] >> 4) | top_of_high << 4;
    q[j] = static_cast<int8_t>(static_cast<int>(low) - 16);
    q[j + 16] = static_cast<int8_t>(static_cast<int>(high) - 16);
  }
}

inline void decode(const BlockQ5_0& block, float* y) {
  const float d = load_f16(block.d);
  int8_t q[32];
  unpack(block, q);
  for (int j = 0; j < 32; ++j) y[j] = d * q[j];
}

inline void encode(const float* input, BlockQ5_0& block) {
  float x[32];
  copy_encodable(input, x, 32);
  const float d = store_f16(symmetric_scale(x, 32, -16, 15), block.d);
  const float inverse = inverse_or_zero(d);
  uint32_t top_bits = 0;
  for (int j = 0; j < 16; ++j) {
    const int low = nearest_level(x[j], inverse, -16, 15) + 16;
    const int high = nearest_level(x[j + 16], inverse, -16, 15) + 16;
    block.levels[j] = static_cast<uint8_t>((low & 15) | (high & 15) << 4);
    top_bits |= static_cast<uint32_t>(low >> 4) << j | static_cast<uint32_t>(high >> 4) << (j + 16);
  }
  for (int i = 0; i < 4; ++i) block.top_bits[i] = static_cast<uint8_t>(top_bits >> (8 * i));
}

}  // namespace troika::tensor
