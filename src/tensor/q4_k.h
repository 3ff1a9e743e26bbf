// Q4_K and Q5_K: super-blocks of 256 weights; 8 groups of 32, each with a 6-bit multiple of a scale
// and a 6-bit multiple of a minimum; 4-bit or 5-bit levels.
// weight = d * scale * level - dmin * min.
#pragma once

#include "tensor/affine.h"
#include "tensor/half.h"
#include "tensor/super_block.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockQ4_K {
  static constexpr Type kType = Type::kQ4_K;
  static constexpr size_t kLength = 256, kGroup = 32;

  uint8_t d[2];
  uint8_t dmin[2];
  // Groups 0..3: scale in the low 6 bits of bytes 0..3, min in those of bytes 4..7. Groups 4..7:
  // low 4 bits in bytes 8..11 (scale low half, min high half), top 2 bits above those of 0..3.
  uint8_t multiples[12];
  uint8_t levels[128];  // has 32 bytes for two groups: the even group is in the low halves
};
static_assert(sizeof(BlockQ4_K) == 144);

struct BlockQ5_K {
  static constexpr Type kType = Type::kQ5_K;
  static constexpr size_t kLength = 256, kGroup = 32;

  uint8_t d[2];
  uint8_t dmin[2];
  uint8_t multiples[12];   // packed as in Q4_K
  uint8_t fifth_bits[32];  // bit g of byte i belongs to weight i of group g
  uint8_t levels[128];     // holds the four low bits, as in Q4_K
};
static_assert(sizeof(BlockQ5_K) == 176);

inline Multiples unpack_multiples(const uint8_t* packed, int group) {
  if (group < 4) {
    return {static_cast<uint8_t>(packed[group] & 63), static_cast<uint8_t>(packed[group + 4] & 63)};
  }
  return {static_cast<uint8_t>((packed[group + 4] & 15) | packed[group - 4] >> 6 << 4),
          static_cast<uint8_t>(packed[group + 4] >> 4 | packed[group] >> 6 << 4)};
}

inline void unpack(const BlockQ4_K& block, int8_t* q) {
  for (int pair = 0; pair < 4; ++pair, q += 64) {
    const uint8_t* levels = block.levels + 32 * pair;
    for (int i = 0; i < 32; ++i) {
      q[i] = static_cast<int8_t>(levels[i] & 15);
      q[i + 32] = static_cast<int8_t>(levels[i] >> 4);
    }
  }
}
inline void unpack(const BlockQ5_K& block, int8_t* q) {
  for (int pair = 0; pair < 4; ++pair, q += 64) {
    const uint8_t* levels = block.levels + 32 * pair;
    for (int i = 0; i < 32; ++i) {
      const int fifths = block.fifth_bits[i] >> (2 * pair);
      q[i] = static_cast<int8_t>((levels[i] & 15) | (fifths & 1) << 4);
      q[i + 32] = static_cast<int8_t>(levels[i] >> 4 | (fifths & 2) << 3);
    }
  }
}

template <typename Block>
void find_affine_groups(const Block& block, Affine* groups) {
  const float d = load_f16(block.d), dmin = load_f16(block.dmin);
  for (int g = 0; g < 8; ++g) {
    const Multiples multiples = unpack_multiples(block.multiples, g);
    groups[g] = {d * multiples.scale, dmin * multiples.min};
  }
}
inline void find_groups(const BlockQ4_K& block, Affine* g) { find_affine_groups(block, g); }
inline void find_groups(const BlockQ5_K& block, Affine* g) { find_affine_groups(block, g); }

void encode(const float* x, BlockQ4_K& block);
void encode(const float* x, BlockQ5_K& block);

}  // namespace troika::tensor
