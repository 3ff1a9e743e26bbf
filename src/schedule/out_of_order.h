// The order that leaves the matrix lane idle least (N7, llm.npu §3.4).
#pragma once

#include "schedule/policy.h"

namespace troika::schedule {

// Takes the ready node with the largest contribution C, the first of equals. S are the nodes that
// can start once it is done. On a lane other than the busiest, C is the time of those of S that the
// busiest lane runs: what keeps it busy longest. On the busiest lane, C is minus the time of those
// that other lanes run: what brings it new work soonest (eq. 5).
class OutOfOrder : public Policy {
 public:
  bool wants_times() const override { return true; }
  // The busiest lane is the one that is expected to work longest.
  void begin(const Pass& pass, std::span<const double> expected_us) override;
  int choose(const Situation& situation) override;

 private:
  double contribution(const Situation& situation, int node) const;

  int busiest_ = 0;
};

}  // namespace troika::schedule
