// Probes of peak rates for arm64.
#pragma once

#include "kernels/probe.h"

namespace troika::kernels::arm {

// Replaces those probes for which this processor has something faster.
void add_probes(CpuFeatures available, Probes* probes);

}  // namespace troika::kernels::arm
