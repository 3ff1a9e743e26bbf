// The tables of kernels for arm64.
#pragma once

#include "base/cpu_features.h"
#include "kernels/kernels.h"

// clang 14 declares the dot product instructions only where the whole program may use them.
#if defined(__aarch64__) && (!defined(__clang__) || defined(__ARM_FEATURE_DOTPROD))
#define TROIKA_NEON_KERNELS 1
#endif

namespace troika::kernels::arm {

inline constexpr CpuFeatures kNeonNeeds(CpuFeature::kNeon, CpuFeature::kDotprod);
extern const Table kNeonTable;

// clang 14 declares the matrix instructions, too, only where the whole program may use them.
#if defined(TROIKA_NEON_KERNELS) && (!defined(__clang__) || defined(__ARM_FEATURE_MATMUL_INT8))
#define TROIKA_I8MM_KERNELS 1
#endif
inline constexpr CpuFeatures kI8mmNeeds(CpuFeature::kNeon, CpuFeature::kDotprod, CpuFeature::kI8mm);
extern const Table kI8mmTable;

}  // namespace troika::kernels::arm
