// The test rows of sd.npu on virtual phones (V3, D1, D6): time per token and its ablation, shares,
// energy, memory. Acceptance is an input, as published; nothing is fitted.
#pragma once

#include <string>

#include "base/timeline.h"
#include "papers/test_rows.h"

namespace troika::papers {

// The folder must outlive the report, whose rows point into it.
TestReport simulate_sd_npu(const PhoneFolder& folder);
TestReport simulate_sd_npu(PhoneFolder&& folder) = delete;

// A prompt of two chunks during which the blocks change their layout: a row for the blocks, named
// by the layout they are computed in, and one for the loads. Returns what to call the picture.
// REQUIRES: the trace has two lanes.
TimelineTitle trace_layout_switch(const PhoneFolder& folder, Trace* trace);

}  // namespace troika::papers
