// Converts rows of any element type to and from float.
#pragma once

#include <cstddef>

#include "tensor/type.h"

namespace troika::tensor {

// Converts n floats to row_bytes(type, n) bytes; n is a multiple of the block length. Not-a-number
// becomes 0 in the block formats, and infinity the largest value they hold, but about 1e9 in MXFP4.
// y may stand at any address.
void quantize_row(Type type, const float* x, void* y, size_t n);

// Says whether a row that quantize_row made of x holds values of this size. Where it does not, a
// value became infinite, or was clamped because the scale of its block could not be larger. Says
// nothing of values that are no finite numbers.
bool holds(Type type, const float* x, const void* row, size_t n);

// Converts back. Every decoder gives the exact value that the format defines.
void dequantize_row(Type type, const void* x, float* y, size_t n);

}  // namespace troika::tensor
