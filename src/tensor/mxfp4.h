// MXFP4: blocks of 32 weights, floats of 4 bits under a power of two.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "tensor/affine.h"
#include "tensor/codebook.h"
#include "tensor/scale_search.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockMXFP4 {
  static constexpr Type kType = Type::kMXFP4;
  static constexpr size_t kLength = 32, kGroup = 32;

  uint8_t exponent;   // the exponent of the power of two, plus 127
  uint8_t codes[16];  // codes of kTinyFloats, which are twice the values
};
static_assert(sizeof(BlockMXFP4) == 17);

// Returns half of the power of two, because levels are twice the values. For the two least
// exponents it is subnormal.
inline float half_of_power(uint8_t exponent) {
  const uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1u) << 23;
  return std::bit_cast<float>(bits);
}

inline void unpack(const BlockMXFP4& block, int8_t* q) {
  unpack_codes(block.codes, kTinyFloats, q);
}

inline void find_groups(const BlockMXFP4& block, Affine* g) {
  *g = {half_of_power(block.exponent), 0};
}

// Takes the power for which the largest magnitude is at most 6, or half of it where clipping costs
// less.
inline void encode(const float* input, BlockMXFP4& block) {
  float x[32];
  copy_encodable(input, x, 32);
  float largest = 0;
  for (const float value : x) largest = std::max(largest, std::fabs(value));
  block.exponent = 0;
  if (largest > 0x1p-120f) {
    int power = std::ilogb(largest) - 2;  // 6 is 1.5 * 2^2
    if (std::ldexp(largest, -power) > 6.0f) ++power;
    const auto exponent = static_cast<uint8_t>(power + 127);
    const auto smaller = static_cast<uint8_t>(exponent - 1);
    const bool is_clipped_better =
        tiny_float_error(x, half_of_power(smaller)) < tiny_float_error(x, half_of_power(exponent));
    block.exponent = is_clipped_better ? smaller : exponent;
  }
  uint8_t codes[32];
  const float inverse = block.exponent == 0 ? 0 : inverse_or_zero(half_of_power(block.exponent));
  nearest_tiny_floats(x, inverse, codes);
  pack_nibbles(codes, block.codes);
}

}  // namespace troika::tensor
