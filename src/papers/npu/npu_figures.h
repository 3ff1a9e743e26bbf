// Figures of what llm.npu's system and single processors take on a phone, under the names that
// phones/simulated uses.
#pragma once

#include "papers/figures.h"
#include "papers/npu/npu_runs.h"
#include "papers/power/power_runs.h"

namespace troika::papers {

// `rivals` runs PowerInfer-2, which llm.npu is compared with. All but `figures`, and the folder of
// the rows, must outlive the figures.
void add_npu_figures(NpuRuns& runs, PowerRuns& rivals, const TestRows& rows, Figures* figures);

}  // namespace troika::papers
