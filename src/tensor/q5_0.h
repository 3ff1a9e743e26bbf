// Q5_0: blocks of 32 weights, a half-precision scale and 5-bit levels -16..15.
#pragma once

#include "tensor/affine.h"
#include "tensor/half.h"
#include "tensor/nibbles.h"
#include "tensor/scale_search.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockQ5_0 {
  static constexpr Type kType = Type::kQ5_0;
  static constexpr size_t kLength = 32, kGroup = 32;

  uint8_t d[2];
  uint8_t fifth_bits[4];
  uint8_t levels[16];  // holds the four low bits of level + 16
};
static_assert(sizeof(BlockQ5_0) == 22);

inline void unpack(const BlockQ5_0& block, int8_t* q) {
  uint8_t values[32];
  unpack_nibbles(block.levels, values);
  add_fifth_bits(block.fifth_bits, values);
  for (int j = 0; j < 32; ++j) q[j] = static_cast<int8_t>(values[j] - 16);
}

inline void find_groups(const BlockQ5_0& block, Affine* g) { *g = {load_f16(block.d), 0}; }

inline void encode(const float* input, BlockQ5_0& block) {
  float x[32];
  copy_encodable(input, x, 32);
  const float d = store_f16(symmetric_scale(x, 32, -16, 15), block.d);
  const float inverse = inverse_or_zero(d);
  uint8_t values[32];
  for (int j = 0; j < 32; ++j) {
    values[j] = static_cast<uint8_t>(nearest_level(x[j], inverse, -16, 15) + 16);
  }
  pack_nibbles(values, block.levels);
  pack_fifth_bits(values, block.fifth_bits);
}

}  // namespace troika::tensor
