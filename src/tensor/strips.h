// Puts sixteen rows of a block format side by side: the order in which matrices lie in memory where
// the kernels of the processor read it. Nothing is rounded, and a strip takes the bytes of its 16
// rows. Along k it has one block of each row at a time. Of these 16 blocks it has the first word of
// row 0, of row 1, ... of row 15, then the second words, and so on. So a vector with an element for
// each row is one load.
#pragma once

#include <cstddef>

#include "tensor/type.h"

namespace troika::tensor {

inline constexpr size_t kStripRows = 16;

// Packs 16 rows of k weights that stand one behind the other. They must not overlap with the strip.
// REQUIRES: a type with blocks.
void pack_strip(Type type, const std::byte* rows, size_t k, std::byte* strip);

// Packs 16 rows in the place where they stand. REQUIRES: `buffer` has room for them.
void pack_strip_in_place(Type type, std::byte* rows, size_t k, std::byte* buffer);

// Copies row `row` of a strip back: row_bytes(type, k), as it stood before.
void copy_strip_row(Type type, const std::byte* strip, size_t row, size_t k, std::byte* to);

// Writes the weights of row `row` of a strip as floats, as their codec decodes them.
void decode_strip_row(Type type, const std::byte* strip, size_t row, size_t k, float* values);

}  // namespace troika::tensor
