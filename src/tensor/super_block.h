// Has what the encoders of super-blocks (256 weights) share: whole-number multiples of one or two
// half-precision numbers for each group, and levels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troika::tensor {

inline constexpr size_t kSuperBlock = 256;

// The multiples of d and of dmin that a group has.
struct Multiples {
  uint8_t scale;
  uint8_t min;
};

// A format with weight = d * scale * level - dmin * min, and levels 0 .. high.
struct AffineShape {
  size_t group;  // counts weights of a group: 16 or 32
  int high;
  int max_multiple;
};
// Stores d and dmin, and writes the multiples of kSuperBlock / group groups and the levels.
void fit_affine(const float* x, const AffineShape& shape, uint8_t* d, uint8_t* dmin,
                Multiples* multiples, uint8_t* levels);

// A format with weight = d * multiple * level in groups of 16, levels low .. high and multiples
// low_multiple .. high_multiple. Both ranges reach one farther down than up.
struct SymmetricShape {
  int low, high;
  int low_multiple, high_multiple;
};
void fit_symmetric(const float* x, const SymmetricShape& shape, uint8_t* d, int8_t* multiples,
                   int8_t* levels);

}  // namespace troika::tensor
