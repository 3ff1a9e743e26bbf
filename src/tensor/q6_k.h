// Q6_K: super-blocks of 256 weights; 16 groups of 16, each with an 8-bit multiple of one
// half-precision scale; 6-bit levels -32..31.
#pragma once

#include "tensor/half.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockQ6_K {
  static constexpr Type kType = Type::kQ6_K;
  static constexpr size_t kLength = 256;
  static constexpr size_t kGroup = 16;

  // For each half (128 weights: four quarters of 32) 64 bytes of low bits and 32 of high ones.
  // Byte l (0..31) of a half holds: low[l] quarter 0 in its low half and quarter 2 in its high
  // half, low[32 + l] quarters 1 and 3, high[l] two bits of each quarter, quarter 0 lowest.
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  uint8_t d[2];
};
static_assert(sizeof(BlockQ6_K) == 210);

inline void unpack(const BlockQ6_K& block, int8_t* q) {
  for (int half = 0; half < 2; ++half, q += 128) {
    const uint8_t* low = block.low + 64 * half;
    const uint8_t* high = block.high + 32 * half;
    for (int l = 0; l < 32; ++l) {
      q[l] = static_cast<int8_t>(((low[l] & 15) | (high[l] & 3) << 4) - 32);
      q[l + 32] = static_cast<int8_t>(((low[l + 32] & 15) | (high[l] >> 2 & 3) << 4) - 32);
      q[l + 64] = static_cast<int8_t>((low[l] >> 4 | (high[l] >> 4 & 3) << 4) - 32);
      q[l + 96] = static_cast<int8_t>((low[l + 32] >> 4 | high[l] >> 6 << 4) - 32);
    }
  }
}

inline void decode(const BlockQ6_K& block, float* y) {
  const float d = load_f16(block.d);
  int8_t q[256];
  unpack(block, q);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * block.scales[g];
    for (int i = 16 * g; i < 16 * g + 16; ++i) y[i] = scale * q[i];
  }
}

void encode(const float* input, BlockQ6_K& block);

}  // namespace troika::tensor
