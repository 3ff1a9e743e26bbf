// Products of single rows of a weight, wherever each of them lies (P1). Bits are those of the whole
// weight's product, because an output's sum depends on nothing but its row.
#pragma once

#include <span>

#include "kernels/kernels.h"

namespace troika::kernels {

// Computes y[i] = sum over k of row i * x. Rows are as in the file; x is one token in the form that
// `multiply` takes.
inline void matmul_rows(MatmulQ8* multiply, std::span<const std::byte* const> rows, size_t k,
                        const std::byte* x, float* y) {
  for (const std::byte* row : rows) multiply({row, 0, k, 0, 1}, 1, x, 0, y++, 0);
}
inline void matmul_rows(MatmulF32* multiply, std::span<const std::byte* const> rows, size_t k,
                        const float* x, float* y) {
  for (const std::byte* row : rows) multiply({row, 0, k, 0, 1}, 1, x, 0, y++, 0);
}

}  // namespace troika::kernels
