// Included in the files that products_neon.h speaks of, which go on with a list of formats that all
// instruction sets share:
//   TROIKA_PRODUCT(type)   for each of them
// and TROIKA_TARGET_END.

#include <arm_neon.h>

#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/arm/products_neon.h"
#include "kernels/arm/target.h"
#include "tensor/codebook.h"
#include "tensor/mxfp4.h"

namespace troika::kernels::arm {

TROIKA_TARGET_BEGIN
namespace {

// Each file uses what stands in those before it.
// clang-format off
#include "kernels/simd/unroll.inl"
#include "kernels/arm/neon_float.inl"
#include "kernels/simd/super_block.inl"
#include "kernels/arm/formats_neon.inl"
#include "kernels/arm/tile_neon.inl"
#include "kernels/simd/matmul_q8.inl"
#include "kernels/simd/token_blocks.inl"
#include "kernels/arm/words_neon.inl"
#include "kernels/simd/strips.inl"
#include "kernels/arm/matmul_q8_strips_neon.inl"
#include "kernels/simd/strip_product.inl"
#include "kernels/simd/matmul_q8_strips.inl"
// clang-format on

}  // namespace

template <Type kType>
void matmul_q8_neon(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                    size_t x_stride_bytes, float* y, size_t y_stride) {
  matmul_q8_tiles<Format<kType>>(weight, n_tokens, x, x_stride_bytes, y, y_stride);
}
template <Type kType>
void matmul_q8_strips_neon(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                           size_t x_stride_bytes, float* y, size_t y_stride) {
  multiply_strips<kType>(weight, n_tokens, x, x_stride_bytes, y, y_stride, matmul_q8_neon<kType>);
}
template <Type kType>
void spread_token_neon(const std::byte* row, size_t k, TokenBlock* blocks, size_t stride) {
  spread_blocks<typename Strip<kType>::Levels>(row, k, blocks, stride);
}
template <Type kType>
void matmul_spread_neon(const MatmulWeight& weight, size_t n_tokens, const TokenBlock* x, float* y,
                        size_t y_stride) {
  multiply_spread<kType>(weight, n_tokens, x, y, y_stride);
}
#define TROIKA_PRODUCT(type)                           \
  template MatmulQ8 matmul_q8_neon<Type::type>;        \
  template MatmulQ8 matmul_q8_strips_neon<Type::type>; \
  template SpreadToken spread_token_neon<Type::type>;  \
  template MatmulSpread matmul_spread_neon<Type::type>;
