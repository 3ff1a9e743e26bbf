// Searches how prompts are best divided by tokens (H4, H5) whose lengths no executable was built
// for. A lane with fixed shapes takes token counts that it has; the rest goes to another lane.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "solve/cuts/cut_search.h"
#include "solve/cuts/kinds.h"
#include "solve/time_model.h"

namespace troika::solve {

// Says how the parts of a length are chosen.
enum class LengthChoice : uint8_t {
  kLeastTime,  // whatever takes least time
  // By the margin, as HeteroLLM 5.2.2 says it: what is left over a prebuilt token count, beside how
  // much faster the lane with fixed shapes is (H12).
  kMargin,
};

struct LengthRules {
  LengthChoice choice = LengthChoice::kLeastTime;
  std::vector<int> lengths;  // the lengths to look at
  int token_granule = 32;
  // The lanes on which each part must have one of the prebuilt token counts; the others take any.
  std::vector<int> fixed_lanes;
  std::vector<int> prebuilt;  // ascending
  std::vector<int> left_out;  // lanes without room for the weights of every subgraph
  double least_gain = 0.0;    // does not count where the margin chooses
};

// Returns rules for every multiple of the granule up to the plan's chunk for which there is no
// executable, on the plan's lanes. Devices that take graphs of fixed shapes are the fixed lanes.
// Since each length makes them compile graphs of its own, only the lengths that prompts of `wanted`
// tokens need are looked at there; empty: all are.
LengthRules length_rules(const plan::Plan& plan, const CutRules& cuts,
                         const std::vector<int>& wanted = {});

struct LengthFound {
  int n_tokens = 0;
  // The time of the divided subgraphs in a pass, by the shapes and cuts of the plan.
  double padded_us = 0.0;
  // The best parts of those tried, better or not; empty: none could be tried.
  plan::Shares tokens;
  double us = 0.0;
  bool is_worthwhile = false;
};

// Searches each length. Only subgraphs that lengths divide count, each on its home lane in the
// plan, which has no lengths yet. Lanes that may not divide tokens in this plan get none,
// and subgraphs whose home lanes may not are not divided.
std::vector<LengthFound> find_lengths(const TimeModel& times,
                                      const std::vector<SubgraphKind>& kinds,
                                      const plan::Plan& plan, const LengthRules& rules);

// Returns the cheapest way to make up n tokens of prebuilt counts, in descending order; empty:
// there is none. `cost_us` has a cost for each count, in their order.
std::vector<int> cheapest_sum(int n, const std::vector<int>& counts,
                              const std::vector<double>& cost_us);

}  // namespace troika::solve
