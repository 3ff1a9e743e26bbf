// Packs weights into panels.
#pragma once

#include "kernels/kernels.h"

namespace troika::kernels {

// Where a row waits between its steps: k floats, and the row as a token of int8 activations is
// kept.
struct PackBuffers {
  float* row;         // (k)
  std::byte* levels;  // (int8_token_bytes(k)), at a multiple of 4 bytes
};

// What is done to a row before it becomes levels, and the scale it gets.
struct PackRule {
  const float* factors = nullptr;  // (k), of the columns
  float limit = 0.0f;  // the magnitude that becomes 127, in all rows; 0: each row's own largest
};

// Rows first_row .. last_row (at most 16) of a weight as one strip of int8 panels: int8_strip_bytes
// of levels, 16 scales, 16 starts. Each row gets the scale at which its largest magnitude becomes
// 127, by `table.quantize_int8`, on which all implementations agree to the bit; or that of the
// rule. REQUIRES: k <= kMostInt8Depth.
void pack_int8(const Table& table, Type type, const MatmulWeight& weight, PackBuffers buffers,
               int8_t* levels, float* scales, int32_t* starts, const PackRule& rule = {});

// The same for rows that get scales of their own, faster: by `table.largest_of_row` and
// `table.unpack_int8`.
void pack_strip(const Table& table, Type type, const MatmulWeight& weight, const Int8Strip& strip);

}  // namespace troika::kernels
