// IQ4_NL: blocks of 32 weights, a half-precision scale and 4-bit codes of uneven levels.
#pragma once

#include "tensor/affine.h"
#include "tensor/codebook.h"
#include "tensor/half.h"
#include "tensor/scale_search.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockIQ4_NL {
  static constexpr Type kType = Type::kIQ4_NL;
  static constexpr size_t kLength = 32, kGroup = 32;

  uint8_t d[2];
  uint8_t codes[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

inline void unpack(const BlockIQ4_NL& block, int8_t* q) {
  unpack_codes(block.codes, kUnevenLevels, q);
}

inline void find_groups(const BlockIQ4_NL& block, Affine* g) { *g = {load_f16(block.d), 0}; }

inline void encode(const float* input, BlockIQ4_NL& block) {
  float x[32];
  copy_encodable(input, x, 32);
  const float d = store_f16(uneven_scale(x), block.d);
  uint8_t codes[32];
  nearest_uneven(x, inverse_or_zero(d), codes);
  pack_nibbles(codes, block.codes);
}

}  // namespace troika::tensor
