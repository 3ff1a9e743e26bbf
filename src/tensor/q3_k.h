// Q3_K: super-blocks of 256 weights; 16 groups of 16, each with a 6-bit multiple (-32..31) of one
// half-precision scale; 3-bit levels -4..3.
#pragma once

#include "tensor/affine.h"
#include "tensor/half.h"
#include "tensor/super_block.h"
#include "tensor/two_bits.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockQ3_K {
  static constexpr Type kType = Type::kQ3_K;
  static constexpr size_t kLength = 256, kGroup = 16;

  uint8_t third_bits[32];  // bit g of byte l belongs to weight 32 g + l
  uint8_t levels[64];      // the two low bits of level + 4
  // Multiple + 32 of group g: its four low bits in byte g % 8, those of groups below 8 in the low
  // half; its two top bits in byte 8 + g % 4, those of groups 0..3 lowest.
  uint8_t multiples[12];
  uint8_t d[2];
};
static_assert(sizeof(BlockQ3_K) == 110);

inline void unpack(const BlockQ3_K& block, int8_t* q) {
  uint8_t values[256];
  unpack_two_bits(block.levels, values);
  for (int g = 0; g < 8; ++g) {
    for (int l = 0; l < 32; ++l) {
      const int third = block.third_bits[l] >> g & 1;
      q[32 * g + l] = static_cast<int8_t>(values[32 * g + l] + 4 * third - 4);
    }
  }
}

inline void find_groups(const BlockQ3_K& block, Affine* groups) {
  const float d = load_f16(block.d);
  for (int g = 0; g < 16; ++g) {
    const int low = block.multiples[g % 8] >> (g / 8 * 4) & 15;
    const int high = block.multiples[8 + g % 4] >> (g / 4 * 2) & 3;
    groups[g] = {d * static_cast<float>(low + 16 * high - 32), 0};
  }
}

inline void encode(const float* x, BlockQ3_K& block) {
  block = {};
  int8_t multiples[16], levels[256];
  fit_symmetric(x, {-4, 3, -32, 31}, block.d, multiples, levels);
  uint8_t values[256];
  for (int i = 0; i < 256; ++i) values[i] = static_cast<uint8_t>(levels[i] + 4);
  pack_two_bits(values, block.levels);
  for (int i = 0; i < 256; ++i) {
    uint8_t& thirds = block.third_bits[i % 32];
    thirds = static_cast<uint8_t>(thirds | values[i] >> 2 << (i / 32));
  }
  for (int g = 0; g < 16; ++g) {
    const int multiple = multiples[g] + 32;
    uint8_t &low = block.multiples[g % 8], &high = block.multiples[8 + g % 4];
    low = static_cast<uint8_t>(low | (multiple & 15) << (g / 8 * 4));
    high = static_cast<uint8_t>(high | multiple >> 4 << (g / 4 * 2));
  }
}

}  // namespace troika::tensor
