// Unpacks rows of any block format to levels with scales, for devices that decode them for
// themselves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/affine.h"
#include "tensor/type.h"

namespace troika::tensor {

// Returns how many weights share a scale; 0 for types without blocks.
size_t group_length(Type type);

// Unpacks n weights, a multiple of the block length, to n levels and the n / group_length scales
// and minima of their groups. REQUIRES: a type with blocks.
void unpack_levels(Type type, const void* row, size_t n, int8_t* levels, Affine* groups);

}  // namespace troika::tensor
