// Tasks that take the place of the feed-forward part of a block, or stand before it.
#pragma once

#include <vector>

#include "plan/shape.h"

namespace troika::schedule {

struct Task;

// Where the feed-forward part of a block stands in a list of tasks.
struct FfnPlace {
  int n_tasks = 0;                  // counts the tasks before it
  std::vector<int> ends;            // the last tasks of what it follows
  std::vector<int> block_begin;     // the tasks for which its block waits
  std::vector<int> previous_begin;  // the tasks for which the block before waited
};

// Makes tasks for the feed-forward part of each block.
class FfnTasks {
 public:
  virtual ~FfnTasks() = default;
  // Returns tasks in place of the feed-forward part, of which the last one ends last; none: that
  // part stays.
  virtual std::vector<Task> in_place(int block, plan::Shape shape, const FfnPlace& place) const = 0;
  // Returns tasks for which the feed-forward part also waits, where it stays.
  virtual std::vector<Task> before(int block, plan::Shape shape, const FfnPlace& place) const = 0;
};

}  // namespace troika::schedule
