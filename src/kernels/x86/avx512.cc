// Kernels for processors with AVX-512 (F, BW, VL, DQ) and VNNI.
#if defined(__x86_64__)

// g++ 12 takes placeholders inside of its own header for uninitialised variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "kernels/column_bytes.h"
#include "kernels/kv.h"
#include "kernels/reference/reference.h"
#include "kernels/x86/products_avx512.h"
#include "kernels/x86/target.h"
#include "kernels/x86/x86.h"
#include "tensor/codebook.h"
#include "tensor/codec.h"
#include "tensor/q8_0.h"

namespace troika::kernels::x86 {

TROIKA_TARGET_BEGIN("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
namespace {

// Each file uses what stands in those before it.
// clang-format off
#include "kernels/simd/unroll.inl"
#include "kernels/x86/avx512_float.inl"
#include "kernels/x86/fours_avx512.inl"
#include "kernels/simd/math.inl"
#include "kernels/simd/pointwise.inl"
#include "kernels/simd/selection.inl"
#include "kernels/simd/attention.inl"
#include "kernels/simd/attention_tile.inl"
#include "kernels/simd/matmul_f32.inl"
#include "kernels/simd/columns.inl"
#include "kernels/simd/super_block.inl"
#include "kernels/x86/quantize_avx2.inl"
#include "kernels/x86/formats_avx2.inl"
#include "kernels/x86/ordered_avx512.inl"
#include "kernels/simd/narrow.inl"
#include "kernels/simd/prompt_attention.inl"
#include "kernels/simd/panels.inl"
#include "kernels/x86/panels_avx512.inl"
#include "kernels/simd/matmul_bf16.inl"
#include "kernels/simd/quantize_within.inl"
#include "kernels/x86/outliers_avx512.inl"
// clang-format on

TROIKA_INLINE inline __m512i bf16_of(F low, F high) {
  return join_halves(V::bf16(low), V::bf16(high));
}
// clang-format off
#include "kernels/x86/unpack_avx512.inl"
#include "kernels/x86/unpack_int8_avx512.inl"
#include "kernels/x86/words_avx512.inl"
#include "kernels/x86/panel_words_avx512.inl"
#include "kernels/simd/strips.inl"
#include "kernels/simd/unpack_strips.inl"
#include "kernels/simd/unpack_int8_strips.inl"
// clang-format on

// Vectors of 8 fit heads of, say, 40 or 72 or 100 elements better, so AVX2 computes them.
void attention(const Attention& args) { attention_or(args, kAvx2Table.attention); }
void attention_segment(const Attention& args, size_t segment, float* part) {
  attention_segment_or(args, segment, part, kAvx2Table.attention_segment);
}
void attention_merge(const Attention& args, const float* parts) {
  attention_merge_or(args, parts, kAvx2Table.attention_merge);
}
void attention_tile(const AttentionTile& tile) {
  attention_tile_or(tile, kAvx2Table.attention_tile);
}

template <Type kType>
constexpr MatmulQ8* matmul_q8_blocks = matmul_q8_avx512<kType>;

}  // namespace
TROIKA_TARGET_END

constinit const Table kAvx512Table = {
#include "kernels/simd/table.inl"
#include "kernels/x86/unpack_table.inl"
#include "kernels/x86/unpack_table_int8.inl"
    .matmul_q8_strips =
        by_block_type<MatmulQ8>([]<Type kType>() { return matmul_q8_strips_avx512<kType>; }),
    .spread_token =
        by_block_type<SpreadToken>([]<Type kType>() { return spread_token_avx512<kType>; }),
    .matmul_spread =
        by_block_type<MatmulSpread>([]<Type kType>() { return matmul_spread_avx512<kType>; }),
    .unpack_bf16_strips =
        by_block_type<UnpackBf16>([]<Type kType>() { return unpack_bf16_strip<kType>; }),
    .unpack_int8_strips =
        by_block_type<UnpackInt8>([]<Type kType>() { return unpack_int8_strip<kType>; }),
    .turned_from = 64,
    .quantize_int8_within = quantize_int8_within,
    .add_outliers = add_outliers,
    .multiply_channels = multiply_channels,
};

}  // namespace troika::kernels::x86

#endif  // __x86_64__
