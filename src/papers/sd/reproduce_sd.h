// Simulates the test rows of sd.npu on virtual phones (V3, D1, D6): time per token and its
// ablation, shares, energy, memory. The published acceptance is an input; nothing is fitted.
#pragma once

#include <string>
#include <vector>

#include "base/timeline/timeline.h"
#include "papers/test_rows.h"

namespace troika::papers {

// The folder must outlive the report, whose rows point into it.
TestReport simulate_sd_npu(const PhoneFolder& folder);
TestReport simulate_sd_npu(PhoneFolder&& folder) = delete;

// Returns the row of what the paper's drafts gain over others, which no phone simulates. Throws
// Error.
const plan::PublishedRow& published_gains_of_drafts(const PhoneFolder& folder);

// Names the rows of a trace of changing layouts: the phone's lanes, the blocks, named by the graphs
// that compute them, and the loads.
inline const std::vector<std::string> kLayoutSwitchRows = {"cpu", "npu", "blocks", "flash"};
// Traces a prompt of four chunks during which graphs of blocks change. Returns what to call the
// picture. REQUIRES: the trace has the rows of kLayoutSwitchRows.
TimelineTitle trace_layout_switch(const PhoneFolder& folder, Trace* trace);

}  // namespace troika::papers
