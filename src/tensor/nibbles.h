// Packs and unpacks the levels of blocks of 32 as most formats have them.
#pragma once

#include <cstdint>

namespace troika::tensor {

// 16 bytes hold 32 values below 16: value j is in the low half of byte j, value j + 16 in its high
// half.
inline void unpack_nibbles(const uint8_t* bytes, uint8_t* values) {
  for (int j = 0; j < 16; ++j) {
    values[j] = bytes[j] & 15;
    values[j + 16] = bytes[j] >> 4;
  }
}
inline void pack_nibbles(const uint8_t* values, uint8_t* bytes) {
  for (int j = 0; j < 16; ++j) {
    bytes[j] = static_cast<uint8_t>((values[j] & 15) | values[j + 16] << 4);
  }
}

// Adds the fifth bits of 32 values: bit j of a little-endian word belongs to value j.
inline void add_fifth_bits(const uint8_t* word, uint8_t* values) {
  for (int j = 0; j < 32; ++j) {
    values[j] = static_cast<uint8_t>(values[j] | (word[j / 8] >> (j % 8) & 1) << 4);
  }
}
inline void pack_fifth_bits(const uint8_t* values, uint8_t* word) {
  for (int i = 0; i < 4; ++i) {
    word[i] = 0;
    for (int j = 0; j < 8; ++j) {
      word[i] = static_cast<uint8_t>(word[i] | (values[8 * i + j] >> 4) << j);
    }
  }
}

}  // namespace troika::tensor
