// Q4_K: super-blocks of 256 weights; 8 groups of 32, each with a 6-bit multiple of a scale and a
// 6-bit multiple of a minimum; 4-bit levels. weight = d * scale * level - dmin * min.
#pragma once

#include "tensor/half.h"
#include "tensor/type.h"

namespace troika::tensor {

struct BlockQ4_K {
  static constexpr Type kType = Type::kQ4_K;
  static constexpr size_t kLength = 256;
  static constexpr size_t kGroup = 32;

  uint8_t d[2];
  uint8_t dmin[2];
  // Groups 0..3: scale in the low 6 bits of bytes 0..3, min in those of bytes 4..7. Groups 4..7:
  // low 4 bits in bytes 8..11 (scale low half, min high half), top 2 bits above those of 0..3.
  uint8_t scales[12];
  uint8_t levels[128];  // 32 bytes for two groups: the even one in the low halves
};
static_assert(sizeof(BlockQ4_K) == 144);

struct GroupScale {
  uint8_t scale;  // 0..63
  uint8_t min;    // 0..63
};

inline GroupScale group_scale(const BlockQ4_K& block, int group) {
  const uint8_t* s = block.scales;
  if (group < 4) {
    return {static_cast<uint8_t>(s[group] & 63), static_cast<uint8_t>(s[group + 4] & 63)};
  }
  return {static_cast<uint8_t>((s[group + 4] & 15) | s[group - 4] >> 6 << 4),
          static_cast<uint8_t>(s[group + 4] >> 4 | s[group] >> 6 << 4)};
}

// Levels 0..15, without the minimum.
inline void unpack(const BlockQ4_K& block, int8_t* q) {
  for (int pair = 0; pair < 4; ++pair, q += 64) {
    const uint8_t* levels = block.levels + 32 * pair;
    for (int i = 0; i < 32; ++i) {
      q[i] = static_cast<int8_t>(levels[i] & 15);
      q[i + 32] = static_cast<int8_t>(levels[i] >> 4);
    }
  }
}

inline void decode(const BlockQ4_K& block, float* y) {
  const float d = load_f16(block.d);
  const float dmin = load_f16(block.dmin);
  int8_t q[256];
  unpack(block, q);
  for (int g = 0; g < 8; ++g) {
    const GroupScale group = group_scale(block, g);
    const float scale = d * group.scale, min = dmin * group.min;
    for (int i = 32 * g; i < 32 * g + 32; ++i) y[i] = scale * q[i] - min;
  }
}

void encode(const float* input, BlockQ4_K& block);

}  // namespace troika::tensor
