// Q8_0: blocks of 32 weights, a half-precision scale and 8-bit levels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/affine.h"
#include "tensor/half.h"
#include "tensor/scale_search.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockQ8_0 {
  static constexpr Type kType = Type::kQ8_0;
  static constexpr size_t kLength = 32, kGroup = 32;

  uint8_t d[2];
  int8_t levels[32];  // the encoder writes -127..127; -128 may stand in a file
};
static_assert(sizeof(BlockQ8_0) == 34);

inline void unpack(const BlockQ8_0& block, int8_t* q) { std::memcpy(q, block.levels, 32); }

inline void find_groups(const BlockQ8_0& block, Affine* g) { *g = {load_f16(block.d), 0}; }

// Gives the largest magnitude level 127. A search would gain little at 8 bits, and this encoder
// also writes the KV cache, where it must be fast.
inline void encode(const float* input, BlockQ8_0& block) {
  float x[32];
  copy_encodable(input, x, 32);
  float largest = 0;
  for (float value : x) largest = std::max(largest, std::fabs(value));
  const float inverse = inverse_or_zero(store_f16(largest / 127, block.d));
  for (int j = 0; j < 32; ++j) {
    block.levels[j] = static_cast<int8_t>(nearest_level(x[j], inverse, -127, 127));
  }
}

}  // namespace troika::tensor
