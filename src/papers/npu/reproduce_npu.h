// Simulates the test rows of llm.npu on the virtual phone (V3, N12): what the paper prints of whole
// prompts, of its ablation and of its scheduling. Nothing is fitted to them.
#pragma once

#include <string>

#include "papers/test_rows.h"

namespace troika::papers {

// The folder must outlive the report, whose rows point into it.
TestReport simulate_llm_npu(const PhoneFolder& folder,
                            const std::vector<plan::ConstantChoice>& constants = {});
// Says how the report changes with a constant that no published row fixes, at an end of its range,
// or with an NPU that holds any model.
struct Sensitivity {
  std::string text;  // "cpu.vector_gflops=100"
  double median_of_values = 0.0, median_of_prompts = 0.0, median_of_all = 0.0;
  OrderingCount orderings;
};
// Widens the intervals of `report`, which is that of the folder, by the runs at ends of ranges;
// null: nobody asks for them.
std::vector<Sensitivity> sensitivities_of_llm_npu(const PhoneFolder& folder,
                                                  TestReport* report = nullptr);
// A folder that is about to end is refused, because the report points into it.
TestReport simulate_llm_npu(PhoneFolder&& folder) = delete;

}  // namespace troika::papers
