// The order in which the matrix lane is idle for the least time (N7, llm.npu §3.4).
#pragma once

#include "schedule/policy.h"

namespace troika::schedule {

// Takes the ready node with the largest contribution C, the first of equals. Let S be the nodes
// that can start once a node is done. On a lane other than the busiest, C is the time of those
// nodes of S that run on the busiest lane, so that it stays busy longest. On the busiest lane, C is
// minus the time of those that run on other lanes, so that new work reaches it soonest (eq. 5).
class OutOfOrder : public Policy {
 public:
  bool wants_times() const override { return true; }
  // Finds the busiest lane: the one that is expected to work longest.
  void begin(const Pass& pass, std::span<const double> expected_us) override;
  int choose(const Situation& situation) override;

 private:
  double contribution(const Situation& situation, int node) const;

  int busiest_ = 0;
};

}  // namespace troika::schedule
