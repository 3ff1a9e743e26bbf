// Packs weights into panels (kernels/panels.h), row by row.
#pragma once

#include "kernels/kernels.h"

namespace troika::kernels {

// Memory in which a row waits between the steps of packing: as k floats, and as a token of int8
// activations.
struct PackBuffers {
  float* row;                   // (k)
  std::byte* levels;            // (int8_token_bytes(k)), at a multiple of 4 bytes
  float* magnitudes = nullptr;  // (k), where the rule is one of int4
};

// Says what is done to a row before it becomes levels, and which scale it gets.
struct PackRule {
  const float* factors = nullptr;  // (k), a factor for each column
  // The magnitude that becomes 127, in all rows; 0: each row's own largest magnitude.
  float limit = 0.0f;
  // Not negative: this share of each row, its largest magnitudes, are outliers, and the largest of
  // the others becomes 7. So the others fit in 4 bits, and outliers have the same step in 8 bits,
  // as far as those go (P11).
  double int4_outliers = -1.0;
};

// Packs rows first_row .. last_row (at most 16) of a weight as one strip of int8 panels:
// int8_strip_bytes of levels, 16 scales, 16 starts. Each row gets the scale of the rule, or the one
// at which its largest magnitude becomes 127. Levels are made by `table.quantize_int8`, on which
// all implementations agree to the bit. REQUIRES: k <= kMostInt8Depth.
void pack_int8(const Table& table, Type type, const MatmulWeight& weight, PackBuffers buffers,
               int8_t* levels, float* scales, int32_t* starts, const PackRule& rule = {});

// Does what pack_int8 does for rows that get scales of their own, faster: by `table.largest_of_row`
// and `table.unpack_int8`.
void pack_strip(const Table& table, Type type, const MatmulWeight& weight, const Int8Strip& strip);

}  // namespace troika::kernels
