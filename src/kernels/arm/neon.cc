// Kernels for arm64 processors with dot products.
#include "kernels/arm/arm.h"
#ifdef TROIKA_NEON_KERNELS
#include <arm_neon.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "kernels/arm/products_neon.h"
#include "kernels/arm/target.h"
#include "kernels/column_bytes.h"
#include "kernels/kv.h"
#include "kernels/reference/matmul.h"
#include "kernels/reference/reference.h"
#include "tensor/codebook.h"
#include "tensor/codec.h"
#include "tensor/mxfp4.h"
#include "tensor/q8_0.h"

namespace troika::kernels::arm {

TROIKA_TARGET_BEGIN
namespace {

// Each file uses what stands in those before it.
// clang-format off
#include "kernels/simd/unroll.inl"
#include "kernels/arm/neon_float.inl"
#include "kernels/simd/math.inl"
#include "kernels/simd/pointwise.inl"
#include "kernels/simd/selection.inl"
#include "kernels/simd/attention.inl"
#include "kernels/simd/attention_tile.inl"
#include "kernels/simd/matmul_f32.inl"
#include "kernels/simd/columns.inl"
#include "kernels/simd/super_block.inl"
#include "kernels/arm/formats_neon.inl"
#include "kernels/simd/narrow.inl"
#include "kernels/arm/quantize_neon.inl"
#include "kernels/simd/prompt_attention.inl"
#include "kernels/simd/panels.inl"
#include "kernels/arm/panels_neon.inl"
#include "kernels/simd/matmul_bf16.inl"
#include "kernels/simd/quantize_within.inl"
#include "kernels/arm/outliers_neon.inl"
#include "kernels/arm/decode_neon.inl"
// clang-format on

// The file below uses what stands above.
#include "kernels/simd/unpack.inl"
// clang-format off
#include "kernels/arm/words_neon.inl"
#include "kernels/simd/strips.inl"
#include "kernels/arm/panel_words_neon.inl"
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

// Storing is a small part of a step, so what the compiler makes of the reference will do.
using reference::store_kv;

template <Type kType>
constexpr MatmulQ8* matmul_q8_blocks = matmul_q8_neon<kType>;

}  // namespace
TROIKA_TARGET_END

constinit const Table kNeonTable = {
#include "kernels/simd/table.inl"
#include "kernels/simd/unpack_table.inl"
    .matmul_q8_strips =
        by_block_type<MatmulQ8>([]<Type kType>() { return matmul_q8_strips_neon<kType>; }),
    .spread_token =
        by_block_type<SpreadToken>([]<Type kType>() { return spread_token_neon<kType>; }),
    .matmul_spread =
        by_block_type<MatmulSpread>([]<Type kType>() { return matmul_spread_neon<kType>; }),
    .unpack_bf16_strips =
        by_block_type<UnpackBf16>([]<Type kType>() { return unpack_bf16_strip<kType>; }),
    .unpack_int8_strips =
        by_block_type<UnpackInt8>([]<Type kType>() { return unpack_int8_strip<kType>; }),
    .turned_from = 32,
    .quantize_int8_within = quantize_int8_within,
    .add_outliers = add_outliers,
    .multiply_channels = multiply_channels,
};

}  // namespace troika::kernels::arm

#endif  // TROIKA_NEON_KERNELS
