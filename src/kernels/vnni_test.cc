// Runs the loops of AVX-VNNI with instructions that more processors have: panels with the AVX-512
// form of the same instruction, strips with instructions of AVX2.
#include <gtest/gtest.h>

#include "kernels/tiles_test_support.h"
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>
#include <utility>

#include "kernels/test_support.h"
#include "kernels/x86/products_avx2.h"
#include "kernels/x86/target.h"
#include "tensor/codebook.h"
#include "tensor/strips.h"

namespace troika::kernels {
namespace {
namespace panels {

TROIKA_TARGET_BEGIN("avx2,fma,avx512f,avx512vl,avx512vnni")
#include "kernels/simd/unroll.inl"
TROIKA_INLINE inline void add_fours(__m256i& sum, __m256i x, __m256i w) {
  sum = _mm256_dpbusd_epi32(sum, x, w);
}
// clang-format off
#include "kernels/simd/panels.inl"
#include "kernels/x86/panels_vnni256.inl"
// clang-format on
TROIKA_TARGET_END

}  // namespace panels

TEST(AvxVnni, N3ProductsEqualTheReferenceToTheBit) {
  if (!detect_cpu_features().has_all(
          CpuFeatures(CpuFeature::kAvx2, CpuFeature::kAvx512vl, CpuFeature::kAvx512Vnni))) {
    GTEST_SKIP() << "this processor has no VNNI for vectors of 256 bits";
  }
  compare_int8_products(&panels::matmul_int8_vnni);
}

namespace strips {

TROIKA_TARGET_BEGIN("avx2,fma,f16c")
// Adds the same products with instructions that more processors have.
template <Type kType>
struct Fours {
  static constexpr bool kAreAdded = true;
  TROIKA_INLINE static void add(__m256i& sum, __m256i levels, __m256i x) {
    const __m256i low = _mm256_set1_epi16(255);
    const __m256i evens =
        _mm256_madd_epi16(levels & low, _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
    const __m256i odds = _mm256_madd_epi16(_mm256_srli_epi16(levels, 8), _mm256_srai_epi16(x, 8));
    sum = _mm256_add_epi32(sum, _mm256_add_epi32(evens, odds));
  }
};
// clang-format off
#include "kernels/simd/unroll.inl"
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
TROIKA_TARGET_END

template <Type kType>
void expect_equal_to_avx2() {
  constexpr size_t kRows = 32, kDepth = 768, kTokens = 11;
  TestWeight weight(kType, kRows, kDepth, random_floats(kRows * kDepth, 1, 0.05f));
  MatmulWeight view = weight.view;
  std::vector<std::byte> packed(kRows * view.row_bytes);
  for (size_t r = 0; r < kRows; r += tensor::kStripRows) {
    tensor::pack_strip(kType, view.data + r * view.row_bytes, kDepth,
                       packed.data() + r * view.row_bytes);
  }
  view.data = packed.data();
  view.n_strip_rows = kRows;
  const std::vector<std::byte> x = quantized(random_floats(kTokens * kDepth, 2), kTokens, kDepth);
  std::vector<float> wanted(kTokens * kRows), found(wanted);
  const size_t stride = q8_row_bytes(kDepth);
  for (const size_t n_tokens : {size_t{1}, size_t{2}, size_t{3}, size_t{4}, kTokens}) {
    x86::matmul_q8_strips_avx2<kType>(view, n_tokens, x.data(), stride, wanted.data(), kRows);
    multiply_strips<kType>(view, n_tokens, x.data(), stride, found.data(), kRows,
                           x86::matmul_q8_avx2<kType>);
    EXPECT_EQ(found, wanted) << tensor::type_name(kType) << ", " << n_tokens << " tokens";
  }
}

}  // namespace strips

TEST(AvxVnni, StripsHaveTheBitsOfAvx2) {
  if (!detect_cpu_features().has_all(
          CpuFeatures(CpuFeature::kAvx2, CpuFeature::kFma, CpuFeature::kF16c))) {
    GTEST_SKIP() << "this processor has no AVX2";
  }
  strips::expect_equal_to_avx2<Type::kQ4_0>();
  strips::expect_equal_to_avx2<Type::kQ5_1>();
  strips::expect_equal_to_avx2<Type::kQ8_0>();
  strips::expect_equal_to_avx2<Type::kMXFP4>();
  strips::expect_equal_to_avx2<Type::kQ4_K>();
}

}  // namespace
}  // namespace troika::kernels

#endif  // __x86_64__
