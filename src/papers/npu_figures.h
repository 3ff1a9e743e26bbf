// Figures of what llm.npu's system and single processors take on a phone, under the names that
// phones/simulated uses.
#pragma once

#include "papers/figures.h"
#include "papers/npu_runs.h"

namespace troika::papers {

// `runs`, `rows` and their folder must outlive the figures.
void add_npu_figures(NpuRuns& runs, const TestRows& rows, Figures* figures);

}  // namespace troika::papers
