// The kernels for x86-64.
#pragma once

#include "base/cpu_features.h"
#include "kernels/kernels.h"

namespace troika::kernels::x86 {

inline constexpr CpuFeatures kAvx2Needs(CpuFeature::kAvx2, CpuFeature::kFma, CpuFeature::kF16c);
extern const Table kAvx2Table;

inline constexpr CpuFeatures kAvx512Needs(CpuFeature::kAvx2, CpuFeature::kFma, CpuFeature::kF16c,
                                          CpuFeature::kAvx512f, CpuFeature::kAvx512bw,
                                          CpuFeature::kAvx512vl, CpuFeature::kAvx512dq,
                                          CpuFeature::kAvx512Vnni);
extern const Table kAvx512Table;

}  // namespace troika::kernels::x86
