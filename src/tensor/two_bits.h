// Packs two bits of each of 256 values as the K formats do: in each half (four quarters of 32
// values), byte l holds value l of every quarter, the first quarter in its lowest bits.
#pragma once

#include <cstdint>

namespace troika::tensor {

inline void unpack_two_bits(const uint8_t* bytes, uint8_t* values) {
  for (int half = 0; half < 2; ++half, bytes += 32) {
    for (int quarter = 0; quarter < 4; ++quarter, values += 32) {
      for (int l = 0; l < 32; ++l) values[l] = bytes[l] >> (2 * quarter) & 3;
    }
  }
}

// Takes the two lowest bits of each value.
inline void pack_two_bits(const uint8_t* values, uint8_t* bytes) {
  for (int half = 0; half < 2; ++half, bytes += 32, values += 128) {
    for (int l = 0; l < 32; ++l) {
      bytes[l] = static_cast<uint8_t>((values[l] & 3) | (values[l + 32] & 3) << 2 |
                                      (values[l + 64] & 3) << 4 | (values[l + 96] & 3) << 6);
    }
  }
}

}  // namespace troika::tensor
