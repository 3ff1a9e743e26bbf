// How long tasks took when they last ran, as what policies expect of the next run (N7).
#pragma once

#include <span>
#include <vector>

#include "schedule/graphs.h"

namespace troika::schedule {

// Tasks of one kind, that is one name, lane and number of rows, are expected to take as long as
// each other; attention in proportion to the positions that its tokens see. Before anything has run
// times are in proportion to the operations: only their relations count.
class ExpectedTimes {
 public:
  double task_us(const Task& task, const lanes::Run& run) const;
  void learn(const Task& task, const lanes::Run& run, double us);

 private:
  struct Entry {
    const char* name;
    int lane;
    int n_rows;
    double us_per_unit;
  };
  const Entry* find(const Task& task) const;

  std::vector<Entry> entries_;
};

}  // namespace troika::schedule
