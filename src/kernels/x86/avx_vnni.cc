// Products with int8 panels and with strips for processors that have VNNI, but no AVX-512.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>
#include <utility>

#include "kernels/x86/products_avx2.h"
#include "kernels/x86/target.h"
#include "kernels/x86/x86.h"
#include "tensor/codebook.h"

namespace troika::kernels::x86 {

TROIKA_TARGET_BEGIN("avx2,fma,f16c,avxvnni")
namespace {

#include "kernels/simd/unroll.inl"
// It is written in assembly, so that sums stay in registers (panels_avx512.inl).
TROIKA_INLINE inline void add_fours(__m256i& sum, __m256i x, __m256i w) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(w));
}

template <Type kType>
struct Fours {
  static constexpr bool kAreAdded = true;
  TROIKA_INLINE static void add(__m256i& sum, __m256i levels, __m256i x) {
    add_fours(sum, levels, x);
  }
};

// Each file uses what stands in those before it.
// clang-format off
#include "kernels/simd/panels.inl"
#include "kernels/x86/panels_vnni256.inl"
#include "kernels/x86/avx2_float.inl"
#include "kernels/simd/super_block.inl"
#include "kernels/x86/formats_avx2.inl"
#include "kernels/simd/token_blocks.inl"
#include "kernels/x86/words_avx2.inl"
#include "kernels/simd/strips.inl"
#include "kernels/x86/matmul_q8_strips_avx2.inl"
#include "kernels/simd/strip_product.inl"
#include "kernels/simd/matmul_q8_strips.inl"
// clang-format on

template <Type kType>
void matmul_q8_strips(const MatmulWeight& weight, size_t n_tokens, const std::byte* x,
                      size_t x_stride_bytes, float* y, size_t y_stride) {
  multiply_strips<kType>(weight, n_tokens, x, x_stride_bytes, y, y_stride, matmul_q8_avx2<kType>);
}
template <Type kType>
void matmul_spread(const MatmulWeight& weight, size_t n_tokens, const TokenBlock* x, float* y,
                   size_t y_stride) {
  multiply_spread<kType>(weight, n_tokens, x, y, y_stride);
}

}  // namespace
TROIKA_TARGET_END

constinit const Table kAvxVnniTable = {
    .matmul_int8 = matmul_int8_vnni,
    .matmul_q8_strips = by_block_type<MatmulQ8>([]<Type kType>() -> MatmulQ8* {
      if constexpr (Format<kType>::kGroup == 16) {
        return nullptr;  // the functions of AVX2 multiply a group by its factor on the way
      } else {
        return matmul_q8_strips<kType>;
      }
    }),
    .matmul_spread = by_block_type<MatmulSpread>([]<Type kType>() -> MatmulSpread* {
      if constexpr (Format<kType>::kGroup == 16) {
        return nullptr;
      } else {
        return matmul_spread<kType>;
      }
    }),
};

}  // namespace troika::kernels::x86

#endif  // __x86_64__
