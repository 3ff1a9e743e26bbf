// Plain matrix products for every element type.
#pragma once

#include "kernels/kernels.h"

namespace troika::kernels::reference {

void matmul_f32(Type type, const MatmulWeight& weight, size_t n_tokens, const float* x,
                size_t x_stride, float* y, size_t y_stride);
void matmul_q8(Type type, const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
               size_t x_stride_bytes, float* y, size_t y_stride);

void quantize_activations(const float* x, std::byte* y, size_t k);

}  // namespace troika::kernels::reference
