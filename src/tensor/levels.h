// Rows of any block format as levels with scales: what devices that decode them for themselves
// take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/affine.h"
#include "tensor/type.h"

namespace troika::tensor {

// Weights that share a scale; 0 for types without blocks.
size_t group_length(Type type);

// n weights, a multiple of the block length, as n levels and n / group_length of their groups.
// REQUIRES: a type with blocks.
void unpack_levels(Type type, const void* row, size_t n, int8_t* levels, Affine* groups);

}  // namespace troika::tensor
