// The test rows of sd.npu on virtual phones (V3, D1, D6): time per token and its ablation, shares,
// energy, memory. Acceptance is an input, as published; nothing is fitted.
#pragma once

#include <string>
#include <vector>

#include "base/timeline.h"
#include "papers/test_rows.h"

namespace troika::papers {

// The folder must outlive the report, whose rows point into it.
TestReport simulate_sd_npu(const PhoneFolder& folder);
TestReport simulate_sd_npu(PhoneFolder&& folder) = delete;

// The rows of such a trace: the phone's lanes, the blocks, named by the graphs that compute them,
// and the loads.
inline const std::vector<std::string> kLayoutSwitchRows = {"cpu", "npu", "blocks", "flash"};
// A prompt of four chunks during which graphs of blocks change. Returns what to call the picture.
// REQUIRES: the trace has those rows.
TimelineTitle trace_layout_switch(const PhoneFolder& folder, Trace* trace);

}  // namespace troika::papers
