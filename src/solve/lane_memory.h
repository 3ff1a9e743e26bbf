// Knows what lanes hold of a model's weights, and how much each of them may hold (N9).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "schedule/graphs.h"
#include "solve/weight_copies.h"

namespace troika::solve {

// Returns the bytes of the weights that a subgraph multiplies with, in the form of the file.
size_t weight_bytes(const lanes::Subgraph& subgraph, const weights::Store& weights);

// Tracks which copies of weights are in the memory of which lane. A copy counts once for each lane,
// in however many shapes the lane needs it.
class LaneMemory {
 public:
  // `copies` must outlive this.
  LaneMemory(const std::vector<plan::PlannedLane>& lanes, const WeightCopies& copies);

  bool has_room(int lane, std::span<const int> copies) const;
  // REQUIRES: the lane has room for them.
  void hold(int lane, std::span<const int> copies);
  uint64_t bytes(int lane) const { return lanes_[static_cast<size_t>(lane)].bytes; }

 private:
  struct Lane {
    uint64_t limit = plan::PlannedLane::kNoLimit;
    uint64_t bytes = 0;
    std::vector<char> holds;  // says of each copy whether it is here; those behind it are not

    bool has(int copy) const {
      return static_cast<size_t>(copy) < holds.size() && holds[static_cast<size_t>(copy)] != 0;
    }
  };
  const WeightCopies* copies_;
  std::vector<Lane> lanes_;
};

// Returns the bytes that each lane holds if a model runs as its plan says, in all shapes of the
// plan. A part of a subgraph counts as the whole of it, and a device with its own copies.
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
