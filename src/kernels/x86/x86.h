// The tables of kernels for x86-64, and the features that each table needs.
#pragma once

#include "base/cpu_features.h"
#include "kernels/kernels.h"

namespace troika::kernels::x86 {

inline constexpr CpuFeatures kAvx2Needs(CpuFeature::kAvx2, CpuFeature::kFma, CpuFeature::kF16c);
extern const Table kAvx2Table;

inline constexpr CpuFeatures kAvxVnniNeeds(CpuFeature::kAvx2, CpuFeature::kFma, CpuFeature::kF16c,
                                           CpuFeature::kAvxVnni);
extern const Table kAvxVnniTable;

inline constexpr CpuFeatures kAvx512Needs(CpuFeature::kAvx2, CpuFeature::kFma, CpuFeature::kF16c,
                                          CpuFeature::kAvx512f, CpuFeature::kAvx512bw,
                                          CpuFeature::kAvx512vl, CpuFeature::kAvx512dq,
                                          CpuFeature::kAvx512Vnni);
extern const Table kAvx512Table;

inline constexpr CpuFeatures kAmxNeeds(CpuFeature::kAvx2, CpuFeature::kFma, CpuFeature::kF16c,
                                       CpuFeature::kAvx512f, CpuFeature::kAvx512bw,
                                       CpuFeature::kAvx512vl, CpuFeature::kAvx512dq,
                                       CpuFeature::kAmxInt8, CpuFeature::kAmxBf16);
extern const Table kAmxTable;

// Instructions for bfloat16 are used only where they are faster than multiply-adds of floats. On
// processors that have a matrix unit they are not.
inline constexpr CpuFeatures kAvx512Bf16Needs(CpuFeature::kAvx2, CpuFeature::kFma,
                                              CpuFeature::kF16c, CpuFeature::kAvx512f,
                                              CpuFeature::kAvx512bw, CpuFeature::kAvx512vl,
                                              CpuFeature::kAvx512dq, CpuFeature::kAvx512Vnni,
                                              CpuFeature::kAvx512Bf16, CpuFeature::kFullRateBf16);
extern const Table kAvx512Bf16Table;

}  // namespace troika::kernels::x86
