// Loops over registers with NEON, as far as the compiler's target has its instructions.
#include "kernels/arm/arm.h"
#if defined(__aarch64__)
#include <arm_neon.h>

#include <utility>

#include "kernels/arm/probe.h"
#include "kernels/arm/target.h"

namespace troika::kernels::arm {

// Counts independent sums: enough to hide the latency of an instruction that can start four times
// in each cycle.
constexpr int kChains = 16;

TROIKA_TARGET_BEGIN
namespace {
#include "kernels/simd/unroll.inl"

double f32(size_t turns) {
  float32x4_t sums[kChains];
  float32x4_t a = vdupq_n_f32(0.5f);
  asm volatile("" : "+w"(a));
  // Each operand is unknown by itself: the compiler would compute sums only once that begin alike
  // and grow alike.
  unrolled<kChains>([&](auto i) TROIKA_INLINE {
    sums[i] = vdupq_n_f32(0);
    asm volatile("" : "+w"(sums[i]));
  });
  for (size_t turn = 0; turn < turns; ++turn) {
    unrolled<kChains>([&](auto i) TROIKA_INLINE { sums[i] = vfmaq_f32(sums[i], a, a); });
  }
  unrolled<kChains>([&](auto i) TROIKA_INLINE { asm volatile("" ::"w"(sums[i])); });
  return 2.0 * 4 * kChains * static_cast<double>(turns);
}

#ifdef TROIKA_NEON_KERNELS
double int8(size_t turns) {
  int32x4_t sums[kChains];
  int8x16_t a = vdupq_n_s8(3);
  asm volatile("" : "+w"(a));
  unrolled<kChains>([&](auto i) TROIKA_INLINE {
    sums[i] = vdupq_n_s32(0);
    asm volatile("" : "+w"(sums[i]));
  });
  for (size_t turn = 0; turn < turns; ++turn) {
    unrolled<kChains>([&](auto i) TROIKA_INLINE { sums[i] = vdotq_s32(sums[i], a, a); });
  }
  unrolled<kChains>([&](auto i) TROIKA_INLINE { asm volatile("" ::"w"(sums[i])); });
  return 2.0 * 16 * kChains * static_cast<double>(turns);
}
#endif

}  // namespace
TROIKA_TARGET_END

void add_probes(CpuFeatures available, Probes* probes) {
  probes->f32 = f32;
  probes->f32_name = "neon";
#ifdef TROIKA_NEON_KERNELS
  if (available.has_all(CpuFeatures(CpuFeature::kNeon, CpuFeature::kDotprod))) {
    probes->int8 = int8;
    probes->int8_name = "dotprod";
  }
#endif
  (void)available;
}

}  // namespace troika::kernels::arm

#endif  // __aarch64__
