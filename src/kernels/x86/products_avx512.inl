// Included at the top of the files that products_avx512.h speaks of, which go on with a list of
// formats that all instruction sets share:
//   TROIKA_PRODUCT(type)   for each of them
// and TROIKA_TARGET_END.

// g++ 12 takes placeholders inside of its own header for uninitialised variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/x86/products_avx512.h"
#include "kernels/x86/target.h"
#include "tensor/codebook.h"

namespace troika::kernels::x86 {

TROIKA_TARGET_BEGIN("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
namespace {

// Each file uses what stands in those before it.
// clang-format off
#include "kernels/simd/unroll.inl"
#include "kernels/x86/avx512_float.inl"
#include "kernels/x86/fours_avx512.inl"
#include "kernels/simd/super_block.inl"
#include "kernels/x86/formats_avx2.inl"
#include "kernels/x86/ordered_avx512.inl"
#include "kernels/x86/formats_avx512.inl"
#include "kernels/x86/blocks_avx512.inl"
#include "kernels/x86/super_blocks_avx512.inl"
#include "kernels/x86/tile_avx512.inl"
#include "kernels/simd/matmul_q8.inl"
#include "kernels/simd/token_blocks.inl"
#include "kernels/x86/matmul_q8_avx512.inl"
#include "kernels/x86/words_avx512.inl"
#include "kernels/simd/strips.inl"
#include "kernels/x86/matmul_q8_strips_avx512.inl"
#include "kernels/simd/matmul_q8_strips.inl"
// clang-format on

}  // namespace

template <Type kType>
void matmul_q8_avx512(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                      size_t x_stride_bytes, float* y, size_t y_stride) {
  matmul_q8<Wide<kType>>(weight, n_tokens, x, x_stride_bytes, y, y_stride);
}
template <Type kType>
void matmul_q8_strips_avx512(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                             size_t x_stride_bytes, float* y, size_t y_stride) {
  multiply_strips<kType>(weight, n_tokens, x, x_stride_bytes, y, y_stride, matmul_q8_avx512<kType>);
}
template <Type kType>
void spread_token_avx512(const std::byte* row, size_t k, TokenBlock* blocks, size_t stride) {
  spread_blocks<typename Strip<kType>::Levels>(row, k, blocks, stride);
}
template <Type kType>
void matmul_spread_avx512(const MatmulWeight& weight, size_t n_tokens, const TokenBlock* x,
                          float* y, size_t y_stride) {
  multiply_spread<kType>(weight, n_tokens, x, y, y_stride);
}
#define TROIKA_PRODUCT(type)                             \
  template MatmulQ8 matmul_q8_avx512<Type::type>;        \
  template MatmulQ8 matmul_q8_strips_avx512<Type::type>; \
  template SpreadToken spread_token_avx512<Type::type>;  \
  template MatmulSpread matmul_spread_avx512<Type::type>;
