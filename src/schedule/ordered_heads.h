// The order in which heads go through the pipeline of sparse attention (S7): planned when a pass
// begins, from what tasks are expected to take.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "schedule/policy.h"

namespace troika::schedule {

// Plans each pipeline of heads of a pass by Algorithm 1, and lets a lane take, of those of its
// tasks in one pipeline that are ready, only the one that stands first there. What else it may take
// is for the policy within to say.
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
  std::vector<int> pipelines_;  // of each node: which it is in; -1: in none
  std::vector<int> ranks_;      // of each node: its place there
  std::vector<int> first_;      // of each pipeline: where its candidate stands in `candidates_`
  std::vector<int> candidates_;
};

}  // namespace troika::schedule
