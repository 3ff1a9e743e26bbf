// Products with int8 panels for processors that have VNNI, but no AVX-512.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>
#include <utility>

#include "kernels/x86/target.h"
#include "kernels/x86/x86.h"

namespace troika::kernels::x86 {

TROIKA_TARGET_BEGIN("avx2,fma,f16c,avxvnni")
namespace {

#include "kernels/simd/unroll.inl"
// In assembly, so that sums stay in registers (panels_avx512.inl).
TROIKA_INLINE inline void add_fours(__m256i& sum, __m256i x, __m256i w) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(w));
}

// Each file uses what stands in those before it.
// clang-format off
#include "kernels/simd/panels.inl"
#include "kernels/x86/panels_vnni256.inl"
// clang-format on

}  // namespace
TROIKA_TARGET_END

constinit const Table kAvxVnniTable = {
    .matmul_int8 = matmul_int8_vnni,
};

}  // namespace troika::kernels::x86

#endif  // __x86_64__
