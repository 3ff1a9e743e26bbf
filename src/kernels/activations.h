// The one quantised form of activations that all integer kernels read.
//
// A token's row of `k` floats becomes three planes, one after the other:
//   int8_t  q[padded]         round(x / scale), in -127 .. 127 (never -128)
//   float   scale[padded/32]  max |x| of 32 values / 127
//   int16_t sum[padded/16]    sums of 16 q: what formats with a minimum need
// `padded` is k rounded up to 256, and the padding is zero, so a kernel may always read whole
// super-blocks. A row takes a multiple of 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troika::kernels {

inline constexpr size_t kQ8Block = 32;     // values under one scale
inline constexpr size_t kQ8SumBlock = 16;  // values under one sum
inline constexpr size_t kQ8Padding = 256;
// A block without a larger magnitude counts as zeros: its scale, times the smallest scale of
// weights (2^-24) and a sixteenth, would be subnormal and lose precision.
inline constexpr float kQ8Smallest = 1e-27f;

constexpr size_t q8_padded(size_t k) { return (k + kQ8Padding - 1) / kQ8Padding * kQ8Padding; }
// Returns the bytes of one token's row: 1.25 for each padded value.
constexpr size_t q8_row_bytes(size_t k) {
  return q8_padded(k) / kQ8Block * (kQ8Block + sizeof(float) + 2 * sizeof(int16_t));
}

// The three planes of one token.
struct Q8Row {
  const int8_t* q;
  const float* scale;
  const int16_t* sum;
};

inline Q8Row q8_row(const std::byte* row, size_t k) {
  const size_t padded = q8_padded(k);
  const std::byte* scale = row + padded;
  const std::byte* sum = scale + padded / kQ8Block * sizeof(float);
  return {reinterpret_cast<const int8_t*>(row), reinterpret_cast<const float*>(scale),
          reinterpret_cast<const int16_t*>(sum)};
}

// 32 activations of a token, for kernels that multiply several tokens with weights whose rows have
// an element of a vector each. One line of the cache holds everything that such a kernel spreads
// over the elements of a vector. `Table::spread_token` makes what depends on the type of the
// weights.
struct alignas(64) TokenBlock {
  int32_t fours[8];  // four q in each word
  // What the weights' offset adds, negated: for both groups of 16, or start[0] for all 32.
  int32_t start[2];
  float scale;
  float sum[2];          // scaled sums of q: for both groups of 16, or sum[0] for all 32
  int32_t pair_of_sums;  // sums of q of both groups of 16, two bytes each
};
static_assert(sizeof(TokenBlock) == 64);

constexpr size_t n_token_blocks(size_t k) { return q8_padded(k) / kQ8Block; }

// Kernels that spread activations take tokens in groups of about the same size, whose sums fit the
// first-level cache. The blocks of a group stand together: block 0 of all its tokens first.
inline constexpr size_t kGroupTokens = 32;
struct TokenGroups {
  size_t n_tokens;
  size_t most = kGroupTokens;  // the most tokens of a group

  constexpr size_t count() const { return (n_tokens + most - 1) / most; }
  constexpr size_t first(size_t group) const { return n_tokens * group / count(); }
  constexpr size_t size(size_t group) const { return first(group + 1) - first(group); }
  constexpr size_t of_token(size_t t) const {
    size_t group = t * count() / n_tokens;
    while (first(group + 1) <= t) ++group;
    return group;
  }
};

}  // namespace troika::kernels
