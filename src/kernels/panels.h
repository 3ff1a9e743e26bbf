// Weights and activations in the layouts that products of many tokens read, as prompts have them.
//
// Weights stand in strips of 16 rows. A line of 64 bytes holds the same few consecutive k of the 16
// rows side by side: 4 k as int8, or 2 k as bfloat16. Lines follow each other along k, so a strip
// is read straight through, one vector instruction takes one line, and 16 lines are one operand of
// a matrix unit's tile instruction. Rows and k that fill up the last strip and the last tile are
// zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/strips.h"

namespace troika::kernels {

using tensor::kStripRows;                     // counts rows of a strip
inline constexpr size_t kLineBytes = 64;      // the bytes of one line of a strip
inline constexpr size_t kInt8LineDepth = 4;   // counts k of a line
inline constexpr size_t kInt8TileDepth = 64;  // counts k of 16 lines
inline constexpr size_t kBf16LineDepth = 2;
inline constexpr size_t kBf16TileDepth = 32;
// Longer sums of int8 products might not fit 32 bits.
inline constexpr size_t kMostInt8Depth = 131071;

constexpr size_t n_strips(size_t n_rows) { return (n_rows + kStripRows - 1) / kStripRows; }
constexpr size_t int8_depth(size_t k) {
  return (k + kInt8TileDepth - 1) / kInt8TileDepth * kInt8TileDepth;
}
constexpr size_t bf16_depth(size_t k) {
  return (k + kBf16TileDepth - 1) / kBf16TileDepth * kBf16TileDepth;
}
constexpr size_t int8_strip_bytes(size_t k) { return int8_depth(k) * kStripRows; }

// A matrix as int8 with a scale for each row (output channel): weight = level * scale. The three
// lists begin with strip `begin`, because a few strips of a matrix may be unpacked at a time.
struct Int8Panels {
  const int8_t* levels = nullptr;   // (n_strips, int8_depth / 4, 16, 4), at a multiple of 64 bytes
  const float* scales = nullptr;    // (16 * n_strips)
  const int32_t* starts = nullptr;  // (16 * n_strips): -128 times the sum of the row's levels
  size_t n_rows = 0;                // counts the rows of the whole matrix
  size_t k = 0;
  size_t begin = 0;

  const int8_t* levels_of(size_t strip) const {
    return levels + (strip - begin) * int8_strip_bytes(k);
  }
  const float* scales_of(size_t strip) const { return scales + (strip - begin) * kStripRows; }
  const int32_t* starts_of(size_t strip) const { return starts + (strip - begin) * kStripRows; }
};

// A strip that is to be written: int8_strip_bytes of levels, at a multiple of 64 bytes, 16 scales,
// 16 starts.
struct Int8Strip {
  int8_t* levels;
  float* scales;
  int32_t* starts;
};

// Returns the bytes of a token's activations for int8 panels: int8_depth(k) levels, then a float
// scale (the largest magnitude / 127). Levels are kept as level + 128, because the instructions
// multiply unsigned by signed bytes; `Int8Panels::starts` takes away what the 128 adds. The last
// line also keeps consecutive rows from falling into the same place of a cache.
constexpr size_t int8_token_bytes(size_t k) { return int8_depth(k) + kLineBytes; }

struct Int8Token {
  const uint8_t* levels;
  const float* scale;
};
inline Int8Token int8_token(const std::byte* row, size_t k) {
  return {reinterpret_cast<const uint8_t*>(row),
          reinterpret_cast<const float*>(row + int8_depth(k))};
}

// Returns the bytes of a token's activations as bfloat16, filled up with zeros.
constexpr size_t bf16_token_bytes(size_t k) { return 2 * bf16_depth(k) + kLineBytes; }

// What all products with panels are told: which strips and tokens, and where results go. y[t *
// y_stride + r] = the sum (+ bias[r]), addressed by the absolute row.
struct PanelProduct {
  size_t first_strip = 0;
  size_t last_strip = 0;
  size_t n_tokens = 0;
  const std::byte* x = nullptr;  // rows of tokens, at a multiple of 64 bytes
  size_t x_stride_bytes = 0;
  const float* bias = nullptr;  // (n_rows) or null
  float* y = nullptr;
  size_t y_stride = 0;
};

// Some strips of a matrix as bfloat16, for a stretch of k. `panel` begins with the product's first
// strip and holds n_k along k (a multiple of 32). Stretches are multiplied one after the other,
// from k = 0 on. Where `is_first`, sums begin anew, otherwise with what y holds. Bias is added
// where `is_last`.
struct Bf16Stretch {
  const uint16_t* panel = nullptr;  // (strips, n_k / 2, 16, 2), at a multiple of 64 bytes
  size_t n_rows = 0;                // counts the rows of the whole matrix
  size_t n_k = 0;
  bool is_first = true;
  bool is_last = true;
};

}  // namespace troika::kernels
