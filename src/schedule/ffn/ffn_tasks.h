// Other tasks in the place of the FFN of a block.
#pragma once

#include <vector>

#include "plan/shape.h"

namespace troika::schedule {

struct Task;

// Where the FFN of a block stands in a list of tasks.
struct FfnPlace {
  int n_tasks = 0;                  // before it
  std::vector<int> ends;            // of what it follows
  std::vector<int> block_begin;     // what its block waits for
  std::vector<int> previous_begin;  // what the block before waited for
};

// Puts other tasks in the place of the FFN of a block, or before it.
class FfnTasks {
 public:
  virtual ~FfnTasks() = default;
  // Tasks in the place of the FFN, the last one behind all others; none: the FFN stays.
  virtual std::vector<Task> in_place(int block, plan::Shape shape, const FfnPlace& place) const = 0;
  // Tasks that the FFN also waits for, where it stays.
  virtual std::vector<Task> before(int block, plan::Shape shape, const FfnPlace& place) const = 0;
};

}  // namespace troika::schedule
