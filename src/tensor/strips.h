// Sixteen rows of a block format side by side: the order in which matrices lie in memory where the
// kernels of the processor read it. Nothing is rounded, and a strip takes the bytes of its 16 rows.
// It has a block of each row after the other along k; of these blocks it has a word of row 0, the
// same word of row 1, ... of row 15, then the next word. So a vector with a lane for each row is
// one load.
#pragma once

#include <cstddef>

#include "tensor/type.h"

namespace troika::tensor {

inline constexpr size_t kStripRows = 16;

// `rows` has 16 rows of k weights, one behind the other. They must not overlap with the strip.
// REQUIRES: a type with blocks.
void pack_strip(Type type, const std::byte* rows, size_t k, std::byte* strip);

// The reverse for row `row` of a strip: row_bytes(type, k), as it stood before.
void copy_strip_row(Type type, const std::byte* strip, size_t row, size_t k, std::byte* to);

// The weights of row `row` of a strip as floats, as their codec decodes them.
void decode_strip_row(Type type, const std::byte* strip, size_t row, size_t k, float* values);

}  // namespace troika::tensor
