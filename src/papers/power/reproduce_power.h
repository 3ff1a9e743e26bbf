// Simulates the test rows of PowerInfer-2 on virtual phones (V3, P1–P13): generation and prompts
// with half of the FFN in memory and with all of it, over budgets, the ablation, several answers at
// once, energy. Nothing is fitted to them.
#pragma once

#include <string>
#include <vector>

#include "base/timeline/timeline.h"
#include "base/trace.h"
#include "papers/test_rows.h"

namespace troika::papers {

// The folder must outlive the report.
TestReport simulate_powerinfer2(const PhoneFolder& folder);
TestReport simulate_powerinfer2(PhoneFolder&& folder) = delete;

// Generation with half of the FFN in memory, for tokens that are more or less like those before
// them: no published row fixes `overlap`.
struct OverlapRow {
  double overlap = 0.0;
  double miss_rate = 0.0;
  double tokens_per_s = 0.0, by_matrix = 0.0, llmflash = 0.0;
};
std::vector<OverlapRow> overlaps_of_powerinfer2(const PhoneFolder& folder);

// A point of Figure 10: generation at a limit of the memory that a program may have.
struct BudgetRow {
  double gb = 0.0;
  double ours = 0.0, llmflash = 0.0, llama = 0.0;  // rates in tokens/s
};
std::vector<BudgetRow> budgets_of_powerinfer2(const PhoneFolder& folder);
// Draws the rows as SVG.
std::string budget_picture(const std::vector<BudgetRow>& rows, const std::string& title);

// Records a step of the first blocks, with clusters mixed or matrix by matrix (Figure 6).
TimelineTitle trace_pipeline(const PhoneFolder& folder, Trace* trace);
inline const std::vector<std::string> kPipelineRows = {"cpu", "npu", "flash"};

}  // namespace troika::papers
