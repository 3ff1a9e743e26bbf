// IQ4_XS: super-blocks of 256 weights; 8 groups of 32, each with a 6-bit multiple (-32..31) of one
// half-precision scale; 4-bit codes of uneven levels.
#pragma once

#include "tensor/affine.h"
#include "tensor/codebook.h"
#include "tensor/half.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockIQ4_XS {
  static constexpr Type kType = Type::kIQ4_XS;
  static constexpr size_t kLength = 256, kGroup = 32;

  uint8_t d[2];
  // Multiple + 32 of group g: its two top bits in a little-endian word, those of group 0 lowest;
  // its four low bits in the low (even g) or high half of byte g / 2.
  uint8_t top_multiples[2];
  uint8_t low_multiples[4];
  uint8_t codes[128];
};
static_assert(sizeof(BlockIQ4_XS) == 136);

inline void unpack(const BlockIQ4_XS& block, int8_t* q) {
  for (int g = 0; g < 8; ++g) unpack_codes(block.codes + 16 * g, kUnevenLevels, q + 32 * g);
}

inline void find_groups(const BlockIQ4_XS& block, Affine* groups) {
  const float d = load_f16(block.d);
  for (int g = 0; g < 8; ++g) {
    const int low = block.low_multiples[g / 2] >> (g % 2 * 4) & 15;
    const int top = block.top_multiples[g / 4] >> (g % 4 * 2) & 3;
    groups[g] = {d * static_cast<float>(low + 16 * top - 32), 0};
  }
}

void encode(const float* input, BlockIQ4_XS& block);

}  // namespace troika::tensor
