// The order in which heads go through the pipeline of sparse attention (S7): planned when a pass
// begins, from what tasks are expected to take.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "schedule/policy.h"

namespace troika::schedule {

// Plans each pipeline of heads of a pass by Algorithm 1. Of a pipeline's tasks that are ready on a
// lane, only the one that stands first in the plan may be taken. The policy inside chooses among
// these and all other tasks.
class OrderedHeads : public Policy {
 public:
  explicit OrderedHeads(std::unique_ptr<Policy> within) : within_(std::move(within)) {}

  bool wants_times() const override { return true; }
  void begin(const Pass& pass, std::span<const double> expected_us) override;
  int choose(const Situation& situation) override;
  const PlanningTime* planning() const override { return &planning_; }

 private:
  void plan(const Pass& pass, std::span<const int> estimates, std::span<const double> expected_us);

  std::unique_ptr<Policy> within_;
  PlanningTime planning_;
  std::vector<int> pipelines_;  // by node: the pipeline in which it is; -1: in none
  std::vector<int> ranks_;      // by node: its place in the plan of its pipeline
  std::vector<int> first_;      // by pipeline: where its candidate stands in `candidates_`
  std::vector<int> candidates_;
};

}  // namespace troika::schedule
