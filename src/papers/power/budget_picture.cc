// Draws generation over the memory that a program may have, in the form of Figure 10.
#include "papers/power/reproduce_power.h"
#include "solve/chart/chart.h"

namespace troika::papers {

std::string budget_picture(const std::vector<BudgetRow>& rows, const std::string& title) {
  solve::LineChart chart = {.title = "Tokens generated in a second",
                            .x = {.label = "memory that the program may take, GB"},
                            .y = {.label = "tokens/s"},
                            .series = {{.name = "clusters of neurons on CPU and NPU"},
                                       {.name = "neurons as LLMFlash reads them", .dashed = true},
                                       {.name = "file mapped, pages read when touched"}}};
  for (const BudgetRow& row : rows) {
    chart.series[0].points.emplace_back(row.gb, row.ours);
    chart.series[1].points.emplace_back(row.gb, row.llmflash);
    chart.series[2].points.emplace_back(row.gb, row.llama);
  }
  return solve::chart_svg(title, "a virtual phone: time is modelled, nothing was measured",
                          {chart});
}

}  // namespace troika::papers
