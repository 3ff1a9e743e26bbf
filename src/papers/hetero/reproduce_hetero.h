// Simulates the test rows of HeteroLLM on a virtual phone (V3, H1–H12): prompts, generation,
// handovers, energy. Nothing is fitted to them.
#pragma once

#include "papers/test_rows.h"

namespace troika::papers {

// The folder must outlive the report.
TestReport simulate_heterollm(const PhoneFolder& folder);
TestReport simulate_heterollm(PhoneFolder&& folder) = delete;

}  // namespace troika::papers
