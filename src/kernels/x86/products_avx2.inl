// Included at the top of the files that products_avx2.h speaks of, which go on with a list of
// formats that all instruction sets share:
//   TROIKA_PRODUCT(type)   for each of them
// and TROIKA_TARGET_END.

#include <immintrin.h>

#include <cstring>
#include <utility>

#include "kernels/x86/products_avx2.h"
#include "kernels/x86/target.h"
#include "tensor/codebook.h"

namespace troika::kernels::x86 {

TROIKA_TARGET_BEGIN("avx2,fma,f16c")
namespace {

// Each file uses what stands in those before it.
// clang-format off
#include "kernels/simd/unroll.inl"
#include "kernels/x86/avx2_float.inl"
#include "kernels/simd/super_block.inl"
#include "kernels/x86/formats_avx2.inl"
#include "kernels/x86/tile_avx2.inl"
#include "kernels/simd/matmul_q8.inl"
#include "kernels/simd/token_blocks.inl"
#include "kernels/x86/words_avx2.inl"
#include "kernels/simd/strips.inl"
// clang-format on
template <Type kType>
struct Fours {
  static constexpr bool kAreAdded = false;
};
// clang-format off
#include "kernels/x86/matmul_q8_strips_avx2.inl"
#include "kernels/simd/strip_product.inl"
#include "kernels/simd/matmul_q8_strips.inl"
// clang-format on

}  // namespace

template <Type kType>
void matmul_q8_avx2(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                    size_t x_stride_bytes, float* y, size_t y_stride) {
  matmul_q8_tiles<Format<kType>>(weight, n_tokens, x, x_stride_bytes, y, y_stride);
}
template <Type kType>
void matmul_q8_strips_avx2(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                           size_t x_stride_bytes, float* y, size_t y_stride) {
  multiply_strips<kType>(weight, n_tokens, x, x_stride_bytes, y, y_stride, matmul_q8_avx2<kType>);
}
template <Type kType>
void spread_token_avx2(const std::byte* row, size_t k, TokenBlock* blocks, size_t stride) {
  spread_blocks<typename Strip<kType>::Levels>(row, k, blocks, stride);
}
template <Type kType>
void matmul_spread_avx2(const MatmulWeight& weight, size_t n_tokens, const TokenBlock* x, float* y,
                        size_t y_stride) {
  multiply_spread<kType>(weight, n_tokens, x, y, y_stride);
}
#define TROIKA_PRODUCT(type)                           \
  template MatmulQ8 matmul_q8_avx2<Type::type>;        \
  template MatmulQ8 matmul_q8_strips_avx2<Type::type>; \
  template SpreadToken spread_token_avx2<Type::type>;  \
  template MatmulSpread matmul_spread_avx2<Type::type>;
