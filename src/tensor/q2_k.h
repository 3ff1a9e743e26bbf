// Q2_K: super-blocks of 256 weights; 16 groups of 16, each with a 4-bit multiple of a scale and a
// 4-bit multiple of a minimum; 2-bit levels. weight = d * scale * level - dmin * min.
#pragma once

#include "tensor/affine.h"
#include "tensor/half.h"
#include "tensor/super_block.h"
#include "tensor/two_bits.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockQ2_K {
  static constexpr Type kType = Type::kQ2_K;
  static constexpr size_t kLength = 256, kGroup = 16;

  // Has the scale's multiple in the low half, the minimum's in the high half.
  uint8_t multiples[16];
  uint8_t levels[64];
  uint8_t d[2];
  uint8_t dmin[2];
};
static_assert(sizeof(BlockQ2_K) == 84);

inline void unpack(const BlockQ2_K& block, int8_t* q) {
  unpack_two_bits(block.levels, reinterpret_cast<uint8_t*>(q));
}

inline void find_groups(const BlockQ2_K& block, Affine* groups) {
  const float d = load_f16(block.d), dmin = load_f16(block.dmin);
  for (int g = 0; g < 16; ++g) {
    const int multiples = block.multiples[g];
    groups[g] = {d * static_cast<float>(multiples & 15), dmin * static_cast<float>(multiples >> 4)};
  }
}

inline void encode(const float* x, BlockQ2_K& block) {
  Multiples multiples[16];
  uint8_t levels[256];
  fit_affine(x, {16, 3, 15}, block.d, block.dmin, multiples, levels);
  for (int g = 0; g < 16; ++g) {
    block.multiples[g] = static_cast<uint8_t>(multiples[g].scale | multiples[g].min << 4);
  }
  pack_two_bits(levels, block.levels);
}

}  // namespace troika::tensor
