// What a lane does next, where several tasks could: a choice that a plan makes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "plan/plan.h"
#include "schedule/pass.h"

namespace troika::schedule {

// Where a run of a pass stands when a lane can take a task.
struct Situation {
  const Pass& pass;
  int lane;
  std::span<const int> ready;  // nodes of this lane that can be submitted, ascending
  int next;                    // the first node of this lane that is not submitted, ready or not
  // How many others stand in the way of each node's submission. The last of them, when it ends,
  // makes it ready; on a lane that is a queue, one of the same lane when it is submitted.
  std::span<const int> n_missing;
  std::span<const double> expected_us;  // of every node, for a policy that wants them
};

// What plans that a policy made before passes took of real time.
struct PlanningTime {
  uint64_t n_plans = 0;
  double us = 0.0;  // all together
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
  // Whether it goes by what tasks are expected to take.
  virtual bool wants_times() const { return false; }
  // A run of a pass begins.
  virtual void begin(const Pass& /*pass*/, std::span<const double> /*expected_us*/) {}
  // Returns a ready node, or -1 to let the lane wait. REQUIRES: one is ready.
  virtual int choose(const Situation& situation) = 0;
  // Null: it plans nothing.
  virtual const PlanningTime* planning() const { return nullptr; }
};

// Each lane runs its nodes in the order of the pass and waits where the next one is not ready.
class InOrder : public Policy {
 public:
  int choose(const Situation& situation) override {
    return situation.ready.front() == situation.next ? situation.next : -1;
  }
};

// `orders_heads`: heads of sparse attention go as Algorithm 1 says (S7).
std::unique_ptr<Policy> make_policy(plan::Order order, bool orders_heads = false);

}  // namespace troika::schedule
