// Helps formats whose 4-bit codes stand for 16 levels that do not lie evenly.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/nibbles.h"

namespace troika::tensor {

// Lists the levels of IQ4 formats: rising, and denser around zero.
inline constexpr int8_t kUnevenLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                             1,    13,   25,  38,  53,  69,  89,  113};
// Lists twice the values of a float of 4 bits: sign, two bits of exponent, one of mantissa.
inline constexpr int8_t kTinyFloats[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

inline void unpack_codes(const uint8_t* bytes, const int8_t* codebook, int8_t* levels) {
  uint8_t codes[32];
  unpack_nibbles(bytes, codes);
  for (int j = 0; j < 32; ++j) levels[j] = codebook[codes[j]];
}

// Finds the codes of the levels nearest to 32 values times inverse_scale. uneven_error is sum (x -
// scale level)^2 with these levels.
void nearest_uneven(const float* x, float inverse_scale, uint8_t* codes);
float uneven_error(const float* x, float scale);
// Returns the scale, maybe negative, for which uneven_error is least.
float uneven_scale(const float* x);

void nearest_tiny_floats(const float* x, float inverse_scale, uint8_t* codes);
float tiny_float_error(const float* x, float scale);

}  // namespace troika::tensor
