// How long tasks took when they last ran, as what policies expect of the next run (N7).
#pragma once

#include <deque>

#include "lanes/lane.h"
#include "plan/plan.h"

namespace troika::schedule {

// Expects what tasks of one kind take: those of one name, place in a cut, lane and shape take as
// long as each other, attention in proportion to the positions that its tokens see. Before any of
// them has run, times are in proportion to the operations: only their relations count.
class TaskTime {
 public:
  double us(double n_units, double operations) const {
    return n_units * (is_known_ ? us_per_unit_ : operations / kOperationsPerUs);
  }
  // A quarter of the newest run goes into what is expected of the next.
  void learn(double n_units, double us);

 private:
  static constexpr double kOperationsPerUs = 1e6;  // of a lane that has not run yet

  double us_per_unit_ = 0.0;
  bool is_known_ = false;
};

// What the time of attention is in proportion to; that of other tasks is 1 unit.
double n_positions(const lanes::Run& run);

// The times of all kinds. They stay where they are, for tasks to point at.
class TaskTimes {
 public:
  // `piece`: its place among those of the subgraph.
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
