// The loops of AVX-VNNI, run with the same instruction as AVX-512 encodes it: more processors have
// that one.
#include <gtest/gtest.h>

#include "kernels/tiles_test_support.h"
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
  compare_int8_products(&matmul_int8_vnni);
}

}  // namespace
}  // namespace troika::kernels

#endif  // __x86_64__
