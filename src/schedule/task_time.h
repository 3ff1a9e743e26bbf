// How long tasks took when they last ran, from which policies expect the next run (N7).
#pragma once

#include <deque>

#include "lanes/lane.h"
#include "plan/plan.h"

namespace troika::schedule {

// Expects the time of tasks of one kind. Tasks of one name, place in a cut, lane and shape are
// taken to need the same time; attention needs time in proportion to the positions that its tokens
// see. Before any task of a kind has run, its time is in proportion to its operations: then only
// relations count.
class TaskTime {
 public:
  double us(double n_units, double operations) const {
    return n_units * (is_known_ ? us_per_unit_ : operations / kOperationsPerUs);
  }
  // Learns a time: a quarter of what is expected next comes from the newest run.
  void learn(double n_units, double us);

 private:
  static constexpr double kOperationsPerUs = 1e6;  // taken for a lane that has not run yet

  double us_per_unit_ = 0.0;
  bool is_known_ = false;
};

// Returns the number to which the time of attention is in proportion. The time of other tasks
// counts as 1 unit.
double n_positions(const lanes::Run& run);

// The times of all kinds. They keep their addresses, because tasks point at them.
class LearnedTimes {
 public:
  // Returns the time of a kind. `piece` is the task's place among the pieces of its subgraph.
  TaskTime* of(const char* name, int lane, plan::Shape shape, int piece = 0);

 private:
  struct Kind {
    const char* name;
    int lane;
    plan::Shape shape;
    int piece;
    TaskTime time;
  };
  std::deque<Kind> kinds_;
};

}  // namespace troika::schedule
