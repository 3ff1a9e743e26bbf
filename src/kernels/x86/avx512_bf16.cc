// Products with bfloat16 panels for processors whose AVX-512 multiplies bfloat16 at twice the rate
// of floats.
#if defined(__x86_64__)

// g++ 12 takes placeholders inside of its own header for uninitialised variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include <cstring>
#include <utility>

#include "kernels/x86/target.h"
#include "kernels/x86/x86.h"
#include "tensor/codebook.h"

namespace troika::kernels::x86 {

TROIKA_TARGET_BEGIN("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")
namespace {

// Each file uses what stands in those before it.
// clang-format off
#include "kernels/simd/unroll.inl"
#include "kernels/x86/avx512_float.inl"
#include "kernels/x86/fours_avx512.inl"
#include "kernels/simd/super_block.inl"
#include "kernels/x86/formats_avx2.inl"
#include "kernels/x86/ordered_avx512.inl"
#include "kernels/simd/panels.inl"
// clang-format on

using F = V::F;

TROIKA_INLINE inline __m512i bf16_of(F low, F high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}
// clang-format off
#include "kernels/x86/unpack_avx512.inl"
#include "kernels/x86/words_avx512.inl"
#include "kernels/x86/panel_words_avx512.inl"
#include "kernels/simd/strips.inl"
#include "kernels/simd/unpack_strips.inl"
// clang-format on

constexpr int kBf16Strips = 4;
constexpr int kBf16Tokens = 6;

// Adds the two products of each element to sum: that of the even k after that of the odd one.
// Written in assembly because g++ 12 otherwise copies every sum to memory and back.
TROIKA_INLINE inline void add_pairs(__m512& sum, __m512i x, __m512i w) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
}

template <int kStrips, int kTokens>
void bf16_tile(const Bf16Stretch& weight, const PanelProduct& product, size_t strip, size_t token) {
  const size_t strip_length = kStripRows * weight.n_k;
  const uint16_t* w = weight.panel + (strip - product.first_strip) * strip_length;
  const std::byte* x[kTokens];
  __m512 sums[kStrips][kTokens];
  __mmask16 rows[kStrips];
  unrolled<kTokens>([&](auto t)
                        TROIKA_INLINE { x[t] = product.x + (token + t) * product.x_stride_bytes; });
  unrolled<kStrips>([&](auto s) TROIKA_INLINE {
    rows[s] = V::first_elements(n_rows_of_strip(strip + s, weight.n_rows));
    const float* y = product.y + token * product.y_stride + (strip + s) * kStripRows;
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      sums[s][t] = _mm512_setzero_ps();
      if (!weight.is_first) sums[s][t] = _mm512_maskz_loadu_ps(rows[s], y + t * product.y_stride);
    });
  });
  for (size_t i = 0; i < weight.n_k; i += kBf16LineDepth, w += kLineBytes / sizeof(uint16_t)) {
    __m512i lines[kStrips];
    unrolled<kStrips>([&](auto s)
                          TROIKA_INLINE { lines[s] = _mm512_load_si512(w + s * strip_length); });
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      const __m512i pair = _mm512_set1_epi32(load_word<int32_t>(x[t] + 2 * i));
      unrolled<kStrips>([&](auto s) TROIKA_INLINE { add_pairs(sums[s][t], pair, lines[s]); });
    });
  }
  unrolled<kStrips>([&](auto s) TROIKA_INLINE {
    const size_t row = (strip + s) * kStripRows;
    unrolled<kTokens>([&](auto t) TROIKA_INLINE {
      __m512 y = sums[s][t];
      if (weight.is_last && product.bias != nullptr) {
        y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(rows[s], product.bias + row));
      }
      _mm512_mask_storeu_ps(product.y + (token + t) * product.y_stride + row, rows[s], y);
    });
  });
}

void matmul_bf16(const Bf16Stretch& weight, const PanelProduct& product) {
  for_each_tile<kBf16Strips, kBf16Tokens>(
      product, [&](size_t strip, auto n_strips, size_t token, auto n_tokens)
                   TROIKA_INLINE { bf16_tile<n_strips, n_tokens>(weight, product, strip, token); });
}

}  // namespace
TROIKA_TARGET_END

constinit const Table kAvx512Bf16Table = {
    .matmul_bf16 = matmul_bf16,
#include "kernels/x86/unpack_table.inl"
    .unpack_bf16_strips =
        by_block_type<UnpackBf16>([]<Type kType>() { return unpack_bf16_strip<kType>; }),
};

}  // namespace troika::kernels::x86

#endif  // __x86_64__
