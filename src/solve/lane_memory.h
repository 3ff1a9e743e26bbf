// Knows what lanes hold of a model's weights, and how much each of them may hold (N9).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "schedule/graphs.h"

namespace troika::solve {

// Returns the bytes of the weights that a subgraph multiplies with.
size_t weight_bytes(const lanes::Subgraph& subgraph, const weights::Store& weights);

// Tracks which weights are in the memory of which lane. A weight counts once for each lane, in
// however many shapes the lane runs it.
class LaneMemory {
 public:
  LaneMemory(const std::vector<plan::PlannedLane>& lanes, std::vector<size_t> bytes_of_subgraphs);

  bool has_room(int lane, size_t subgraph) const;
  // REQUIRES: the lane has room for it.
  void hold(int lane, size_t subgraph);

 private:
  struct Lane {
    uint64_t limit = plan::PlannedLane::kNoLimit;
    uint64_t bytes = 0;
    std::vector<char> holds;  // says of each subgraph whether its weights are here
  };
  std::vector<size_t> bytes_of_subgraphs_;
  std::vector<Lane> lanes_;
};

// Returns the bytes that each lane holds if a model runs as its plan says, in all shapes of the
// plan. A part of a subgraph counts as the whole of it.
std::vector<size_t> held_by_lanes(const model::Blueprint& blueprint, const weights::Store& weights,
                                  const plan::Plan& plan);

// Returns a sentence for each kind of subgraph of which the plan runs fewer blocks on a lane than
// `rules`, which a user asked for, say: limits of memory come before rules. Lanes of heads (S6) do
// too, and have a sentence of their own. REQUIRES: the rules name lanes of the plan.
std::vector<std::string> broken_rules(const model::Blueprint& blueprint, const plan::Plan& plan,
                                      const std::vector<plan::Placement>& rules);

// Says whether some executable of the plan, in one block at least, is one that the rule is for. The
// rule may be for the outliers of products, which are no subgraph: then it says yes.
bool meets_executable(const model::Blueprint& blueprint, const plan::Plan& plan,
                      const plan::Placement& rule);

}  // namespace troika::solve
