// Plain matrix products for every element type.
#pragma once

#include "kernels/kernels.h"

namespace troika::kernels::reference {

ByType<MatmulF32> matmul_f32_table();
ByType<MatmulQ8> matmul_q8_table();
void quantize_activations(const float* x, std::byte* y, size_t k);

}  // namespace troika::kernels::reference
