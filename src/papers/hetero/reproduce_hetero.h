// Simulates the test rows of HeteroLLM on a virtual phone (V3, H1–H12): prompts, generation,
// handovers, energy. Nothing is fitted to them.
#pragma once

#include <string>
#include <vector>

#include "papers/test_rows.h"

namespace troika::papers {

// The folder must outlive the report.
TestReport simulate_heterollm(const PhoneFolder& folder);
TestReport simulate_heterollm(PhoneFolder&& folder) = delete;

// Prompts of lengths that have no graph, by one way to compute them (H12, as in Figure 14).
struct OddPrompts {
  struct Prompt {
    int n_tokens = 0;
    double seconds = 0.0;   // the time with that of the graphs
    double graphs_s = 0.0;  // the part of it in which graphs are made
  };
  std::string system;
  std::vector<Prompt> prompts;
};
std::vector<OddPrompts> odd_prompts_of_heterollm(const PhoneFolder& folder);

}  // namespace troika::papers
