// The kernels for arm64.
#pragma once

#include "base/cpu_features.h"
#include "kernels/kernels.h"

namespace troika::kernels::arm {

inline constexpr CpuFeatures kNeonNeeds(CpuFeature::kNeon, CpuFeature::kDotprod);
extern const Table kNeonTable;

}  // namespace troika::kernels::arm
