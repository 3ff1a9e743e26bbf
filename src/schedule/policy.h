// What a lane does next where it could do several tasks: a choice that a plan makes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "plan/plan.h"
#include "schedule/pass.h"

namespace troika::schedule {

// The state of a run of a pass at the moment when a lane can take a task.
struct Situation {
  const Pass& pass;
  int lane;
  std::span<const int> ready;  // nodes of this lane that can be submitted, ascending
  int next;                    // the first node of this lane that is not submitted, ready or not
  // Says for each node how many others still stand in the way of its submission: another node does
  // until it ends or, if both are on one lane that is a queue, until it is submitted.
  std::span<const int> n_missing;
  std::span<const double> expected_us;  // one entry for each node, for a policy that wants times
};

// The real time that plans took which a policy made before passes.
struct PlanningTime {
  uint64_t n_plans = 0;
  double us = 0.0;  // all plans together
  double longest_us = 0.0;

  void add(double plan_us) {
    ++n_plans;
    us += plan_us;
    longest_us = std::max(longest_us, plan_us);
  }
};

// Chooses what an idle lane does next.
class Policy {
 public:
  virtual ~Policy() = default;
  // Says whether the policy uses expected times of tasks.
  virtual bool wants_times() const { return false; }
  // Is told that a run of a pass begins.
  virtual void begin(const Pass& /*pass*/, std::span<const double> /*expected_us*/) {}
  // Returns a ready node, or -1 to let the lane wait. REQUIRES: one is ready.
  virtual int choose(const Situation& situation) = 0;
  // Returns what planning took; null: the policy plans nothing.
  virtual const PlanningTime* planning() const { return nullptr; }
};

// Each lane runs its nodes in the order of the pass, and waits where the next one is not ready.
class InOrder : public Policy {
 public:
  int choose(const Situation& situation) override {
    return situation.ready.front() == situation.next ? situation.next : -1;
  }
};

// Makes the policy of an order. `orders_heads`: heads of sparse attention go in the order of
// Algorithm 1 (S7). REQUIRES: not in lock step, which waits for the next node of the pass: the plan
// of heads may offer it others alone, and then nothing would ever start.
std::unique_ptr<Policy> make_policy(plan::Order order, bool orders_heads = false);

}  // namespace troika::schedule
