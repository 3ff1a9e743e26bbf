// The plain versions of products with panels (kernels/panels.h).
#pragma once

#include "kernels/kernels.h"

namespace troika::kernels::reference {

void quantize_int8(const float* x, std::byte* y, size_t k);
void narrow_bf16(const float* x, std::byte* y, size_t k);
void matmul_int8(const Int8Panels& weight, const PanelProduct& product);
void matmul_bf16(const Bf16Stretch& weight, const PanelProduct& product);
void unpack_bf16(Type type, const MatmulWeight& weight, size_t first_k, size_t n_k,
                 uint16_t* strip);
float largest_of_row(Type type, const std::byte* row, size_t k);
void unpack_int8(Type type, const MatmulWeight& weight, const float* largest,
                 const Int8Strip& strip);

}  // namespace troika::kernels::reference
