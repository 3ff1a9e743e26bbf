// How prompts of lengths for which no executable was built are best divided by tokens (H4, H5):
// sums of the token counts that a lane with fixed shapes has on that lane, the rest on another.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "solve/cuts/cut_search.h"
#include "solve/cuts/kinds.h"
#include "solve/task_times.h"

namespace troika::solve {

struct LengthRules {
  std::vector<int> lengths;  // that are looked at
  int token_granule = 32;
  // Lanes on which parts have one of these token counts; the others take any.
  std::vector<int> fixed_lanes;
  std::vector<int> prebuilt;  // ascending
  std::vector<int> left_out;  // lanes without room for the weights of every subgraph
  double least_gain = 0.0;
};

// Every multiple of the granule up to the plan's chunk for which there is no executable, on the
// plan's lanes. Devices that take graphs of fixed shapes are its fixed lanes; since each length
// makes them compile graphs of its own, only those that prompts of `wanted` tokens come to are
// looked at there. None wanted: all.
LengthRules length_rules(const plan::Plan& plan, const CutRules& cuts,
                         const std::vector<int>& wanted = {});

struct LengthFound {
  int n_tokens = 0;
  double padded_us = 0.0;  // of the divided subgraphs of a pass by the shapes and cuts of the plan
  plan::Shares parts;      // the best of those tried, better or not; empty: none could be tried
  double us = 0.0;
  bool is_worthwhile = false;
};

// Subgraphs that lengths divide count, each on its home lane in the plan, which has no lengths yet.
std::vector<LengthFound> find_lengths(const TaskTimes& times,
                                      const std::vector<SubgraphKind>& kinds,
                                      const plan::Plan& plan, const LengthRules& rules);

// The cheapest way to make up n tokens of prebuilt counts, in descending order; empty: there is
// none. `cost_us` belongs to the counts, in their order.
std::vector<int> cheapest_sum(int n, const std::vector<int>& counts,
                              const std::vector<double>& cost_us);

}  // namespace troika::solve
