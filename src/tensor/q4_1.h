// Q4_1 and Q5_1: blocks of 32 weights, a scale and the least weight in half precision, and levels
// of 4 or 5 bits from 0 on. weight = d * level + least.
#pragma once

#include "tensor/affine.h"
#include "tensor/half.h"
#include "tensor/nibbles.h"
#include "tensor/scale_search.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockQ4_1 {
  static constexpr Type kType = Type::kQ4_1;
  static constexpr size_t kLength = 32, kGroup = 32;

  uint8_t d[2];
  uint8_t least[2];
  uint8_t levels[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

struct BlockQ5_1 {
  static constexpr Type kType = Type::kQ5_1;
  static constexpr size_t kLength = 32, kGroup = 32;

  uint8_t d[2];
  uint8_t least[2];
  uint8_t fifth_bits[4];
  uint8_t levels[16];  // holds the four low bits
};
static_assert(sizeof(BlockQ5_1) == 24);

inline void unpack(const BlockQ4_1& block, int8_t* q) {
  unpack_nibbles(block.levels, reinterpret_cast<uint8_t*>(q));
}
inline void unpack(const BlockQ5_1& block, int8_t* q) {
  auto* values = reinterpret_cast<uint8_t*>(q);
  unpack_nibbles(block.levels, values);
  add_fifth_bits(block.fifth_bits, values);
}

inline void find_groups(const BlockQ4_1& block, Affine* g) {
  *g = {load_f16(block.d), -load_f16(block.least)};
}
inline void find_groups(const BlockQ5_1& block, Affine* g) {
  *g = {load_f16(block.d), -load_f16(block.least)};
}

// Fills d and least of the block, and writes levels from 0 to high.
template <typename Block>
void encode_with_least(const float* input, int high, Block& block, uint8_t* values) {
  float x[32];
  copy_encodable(input, x, 32);
  const ScaleAndMin fit = scale_and_min(x, 32, high, MinSign::kAny);
  const float inverse = inverse_or_zero(store_f16(fit.scale, block.d));
  const float least = store_f16(-fit.min, block.least);
  for (int j = 0; j < 32; ++j) {
    values[j] = static_cast<uint8_t>(nearest_level(x[j] - least, inverse, 0, high));
  }
}

inline void encode(const float* input, BlockQ4_1& block) {
  uint8_t values[32];
  encode_with_least(input, 15, block, values);
  pack_nibbles(values, block.levels);
}
inline void encode(const float* input, BlockQ5_1& block) {
  uint8_t values[32];
  encode_with_least(input, 31, block, values);
  pack_nibbles(values, block.levels);
  pack_fifth_bits(values, block.fifth_bits);
}

}  // namespace troika::tensor
