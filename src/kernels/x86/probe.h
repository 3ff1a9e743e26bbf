// Probes of peak rates for x86-64.
#pragma once

#include "kernels/probe.h"

namespace troika::kernels::x86 {

// Replaces those probes for which this processor has something faster.
void add_probes(CpuFeatures available, bool without_matrix, Probes* probes);

}  // namespace troika::kernels::x86
