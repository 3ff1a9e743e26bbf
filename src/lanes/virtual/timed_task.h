// A task of a virtual lane that says its own cost, when it is submitted.
#pragma once

#include "lanes/lane.h"
#include "lanes/virtual/virtual_machine.h"

namespace troika::lanes {

class TimedTask : public Executable {
 public:
  explicit TimedTask(int n_tokens) : Executable(n_tokens) {}
  // Returns the cost. Called once for each run of the task, when all that the task waits for has
  // ended.
  virtual TaskCost cost(const Run& run) const = 0;
};

}  // namespace troika::lanes
