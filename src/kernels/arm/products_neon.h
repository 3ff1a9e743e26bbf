// Products with quantised activations with NEON, in source files of their own because they take
// long to compile. Every block format is instantiated in one of them.
#pragma once

#include "kernels/kernels.h"

namespace troika::kernels::arm {

template <Type kType>
void matmul_q8_neon(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                    size_t x_stride_bytes, float* y, size_t y_stride);
// Multiplies weights in strips.
template <Type kType>
void matmul_q8_strips_neon(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                           size_t x_stride_bytes, float* y, size_t y_stride);
template <Type kType>
void spread_token_neon(const std::byte* row, size_t k, TokenBlock* blocks, size_t stride);
template <Type kType>
void matmul_spread_neon(const MatmulWeight& weight, size_t n_tokens, const TokenBlock* x, float* y,
                        size_t y_stride);

}  // namespace troika::kernels::arm
