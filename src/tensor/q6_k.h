// Q6_K: super-blocks of 256 weights; 16 groups of 16, each with an 8-bit multiple of one
// half-precision scale; 6-bit levels -32..31.
#pragma once

#include "tensor/affine.h"
#include "tensor/half.h"
#include "tensor/super_block.h"
#include "tensor/two_bits.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockQ6_K {
  static constexpr Type kType = Type::kQ6_K;
  static constexpr size_t kLength = 256, kGroup = 16;

  // Has for each half (four quarters of 32 weights) 64 bytes of low bits: byte l (0..31) holds
  // quarter 0 in its low half and quarter 2 in its high half, byte 32 + l quarters 1 and 3.
  uint8_t low[128];
  uint8_t high[64];  // holds the two top bits
  int8_t multiples[16];
  uint8_t d[2];
};
static_assert(sizeof(BlockQ6_K) == 210);

inline void unpack(const BlockQ6_K& block, int8_t* q) {
  uint8_t high[256];
  unpack_two_bits(block.high, high);
  for (int half = 0; half < 2; ++half) {
    const uint8_t *low = block.low + 64 * half, *top = high + 128 * half;
    for (int l = 0; l < 64; ++l) {
      q[128 * half + l] = static_cast<int8_t>(((low[l] & 15) | top[l] << 4) - 32);
      q[128 * half + 64 + l] = static_cast<int8_t>((low[l] >> 4 | top[64 + l] << 4) - 32);
    }
  }
}

inline void find_groups(const BlockQ6_K& block, Affine* groups) {
  const float d = load_f16(block.d);
  for (int g = 0; g < 16; ++g) groups[g] = {d * block.multiples[g], 0};
}

inline void encode(const float* x, BlockQ6_K& block) {
  int8_t levels[256];
  fit_symmetric(x, {-32, 31, -128, 127}, block.d, block.multiples, levels);
  uint8_t high[256];
  for (int half = 0; half < 2; ++half) {
    for (int l = 0; l < 64; ++l) {
      const int i = 128 * half + l;
      const int first = levels[i] + 32, second = levels[i + 64] + 32;
      block.low[64 * half + l] = static_cast<uint8_t>((first & 15) | (second & 15) << 4);
      high[i] = static_cast<uint8_t>(first >> 4);
      high[i + 64] = static_cast<uint8_t>(second >> 4);
    }
  }
  pack_two_bits(high, block.high);
}

}  // namespace troika::tensor
