// Finds the scale with which whole numbers describe a few floats best, by least squares.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troika::tensor {

// Lies beyond the range of every block format but MXFP4.
inline constexpr float kMostEncodable = 1e9f;

// Copies x. Not-a-number becomes 0, and what is beyond kMostEncodable is clamped, so that the
// squares and sums of an encoder never overflow.
void copy_encodable(const float* x, float* y, size_t n);

// Returns the whole number nearest to x * inverse_scale in [low, high]; ties go to even.
int nearest_level(float x, float inverse_scale, int low, int high);

// Returns 1 / scale, or 0 if that is not a finite number.
float inverse_or_zero(float scale);

// Returns the scale s (maybe negative) for which sum (x - s q)^2 is least, with q =
// nearest_level(x, 1/s, low, high), low < 0 < high and -low >= high. Returns 0 if all x are 0.
float symmetric_scale(const float* x, size_t n, int low, int high);

// The s >= 0 and m, which some formats hold only if it is not negative, for which sum (x - (s q -
// m))^2 is least, with q in [0, high].
struct ScaleAndMin {
  float scale;
  float min;
};
enum class MinSign { kNotNegative, kAny };
ScaleAndMin scale_and_min(const float* x, size_t n, int high, MinSign sign);

// Returns sum (x - (s q - m))^2 for the best q in [0, high].
float affine_error(const float* x, size_t n, int high, ScaleAndMin fit);

}  // namespace troika::tensor
