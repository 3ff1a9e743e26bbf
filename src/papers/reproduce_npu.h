// The test rows of llm.npu on the virtual phone (V3, N12): what the paper prints of whole prompts,
// of its ablation and of its scheduling. Nothing is fitted to them.
#pragma once

#include <string>

#include "papers/test_rows.h"

namespace troika::papers {

// The folder must outlive the report, whose rows point into it.
TestReport simulate_llm_npu(const PhoneFolder& folder);
// A report of a folder that is gone would point to nothing.
TestReport simulate_llm_npu(PhoneFolder&& folder) = delete;

}  // namespace troika::papers
