// The loops of AVX-VNNI, run with the same instruction as AVX-512 encodes it: more processors have
// that one.
#include <gtest/gtest.h>

#include "kernels/panels_test_support.h"
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>
#include <utility>

#include "kernels/x86/target.h"

namespace troika::kernels {
namespace {

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

TEST(AvxVnni, N3ProductsEqualTheReferenceToTheBit) {
  if (!detect_cpu_features().has_all(
          CpuFeatures(CpuFeature::kAvx2, CpuFeature::kAvx512vl, CpuFeature::kAvx512Vnni))) {
    GTEST_SKIP() << "this processor has no VNNI for vectors of 256 bits";
  }
  for (const Shape& s : kPanelShapes) {
    const TestWeight weight(Type::kF32, s.n_rows, s.k, random_floats(s.n_rows * s.k, 1, 0.05f));
    const Int8Weight packed(Type::kF32, weight.view);
    const std::vector<float> bias = random_floats(s.n_rows, 3);
    const auto x =
        int8_tokens(reference::kTable, random_floats(s.n_tokens * s.k, 2), s.n_tokens, s.k);
    for (const float* b : {static_cast<const float*>(nullptr), bias.data()}) {
      std::vector<float> mine(s.n_tokens * s.n_rows + 1, -7), theirs = mine;
      PanelProduct product = {0, n_strips(s.n_rows), s.n_tokens, x.get(), int8_token_bytes(s.k),
                              b, mine.data(),        s.n_rows};
      matmul_int8_vnni(packed.view, product);
      product.y = theirs.data();
      reference::kTable.matmul_int8(packed.view, product);
      EXPECT_EQ(mine, theirs) << s.n_rows << " rows, k " << s.k << ", tokens " << s.n_tokens;
    }
  }
}

}  // namespace
}  // namespace troika::kernels

#endif  // __x86_64__
