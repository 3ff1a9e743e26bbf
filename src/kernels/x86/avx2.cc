// Kernels for processors with AVX2, FMA and F16C.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "kernels/column_bytes.h"
#include "kernels/kv.h"
#include "kernels/reference/reference.h"
#include "kernels/x86/products_avx2.h"
#include "kernels/x86/target.h"
#include "kernels/x86/x86.h"
#include "tensor/codebook.h"
#include "tensor/codec.h"
#include "tensor/q8_0.h"

namespace troika::kernels::x86 {

TROIKA_TARGET_BEGIN("avx2,fma,f16c")
namespace {

// Each file uses what stands in those before it.
// clang-format off
#include "kernels/simd/unroll.inl"
#include "kernels/x86/avx2_float.inl"
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
#include "kernels/simd/narrow.inl"
#include "kernels/simd/prompt_attention.inl"
#include "kernels/simd/panels.inl"
#include "kernels/x86/panels_avx2.inl"
#include "kernels/simd/matmul_bf16.inl"
#include "kernels/simd/quantize_within.inl"
#include "kernels/x86/outliers_avx2.inl"
// clang-format on

#include "kernels/x86/decode_avx2.inl"
// The file below uses what stands above.
#include "kernels/simd/unpack.inl"
// clang-format off
#include "kernels/x86/words_avx2.inl"
#include "kernels/simd/strips.inl"
#include "kernels/x86/panel_words_avx2.inl"
#include "kernels/simd/unpack_strips.inl"
#include "kernels/simd/unpack_int8_strips.inl"
// clang-format on

void attention(const Attention& args) { attention_or(args, reference::attention); }
void attention_segment(const Attention& args, size_t segment, float* part) {
  attention_segment_or(args, segment, part, reference::attention_segment);
}
void attention_merge(const Attention& args, const float* parts) {
  attention_merge_or(args, parts, reference::attention_merge);
}
void attention_tile(const AttentionTile& tile) {
  attention_tile_or(tile, reference::attention_tile);
}

template <Type kType>
constexpr MatmulQ8* matmul_q8_blocks = matmul_q8_avx2<kType>;

}  // namespace
TROIKA_TARGET_END

constinit const Table kAvx2Table = {
#include "kernels/simd/table.inl"
#include "kernels/simd/unpack_table.inl"
    .matmul_q8_strips =
        by_block_type<MatmulQ8>([]<Type kType>() { return matmul_q8_strips_avx2<kType>; }),
    .spread_token =
        by_block_type<SpreadToken>([]<Type kType>() { return spread_token_avx2<kType>; }),
    .matmul_spread =
        by_block_type<MatmulSpread>([]<Type kType>() { return matmul_spread_avx2<kType>; }),
    .unpack_bf16_strips =
        by_block_type<UnpackBf16>([]<Type kType>() { return unpack_bf16_strip<kType>; }),
    .unpack_int8_strips =
        by_block_type<UnpackInt8>([]<Type kType>() { return unpack_int8_strip<kType>; }),
    .turned_from = 8,
    .quantize_int8_within = quantize_int8_within,
    .add_outliers = add_outliers,
    .multiply_channels = multiply_channels,
};

}  // namespace troika::kernels::x86

#endif  // __x86_64__
