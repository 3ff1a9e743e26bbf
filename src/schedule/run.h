// Runs a list of tasks.
#pragma once

#include <span>

#include "base/trace.h"
#include "lanes/machine.h"
#include "schedule/graphs.h"

namespace troika::schedule {

// Told where a pass stands: of what goes by blocks, as their layouts do (D1).
class BlockWatch {
 public:
  virtual ~BlockWatch() = default;
  // A pass of n_tokens through executables for n_rows is at this block; its tasks are submitted
  // when this returns. Throws Error where they cannot be.
  virtual void before_block(int block, int n_rows, int n_tokens) = 0;
  // The last block has ended, or a task has failed.
  virtual void after_blocks() = 0;
};

// In order, each after the one before has ended: one prebuilt list without decisions. Throws Error
// where a task failed. `trace` and `watch` may be null.
void run_in_order(const TaskList& list, const lanes::Run& run, lanes::Machine& machine,
                  Trace* trace = nullptr, BlockWatch* watch = nullptr);
// A part of a list.
void run_in_order(std::span<const Task> tasks, const lanes::Run& run, lanes::Machine& machine,
                  Trace* trace = nullptr, BlockWatch* watch = nullptr);

// Throws the Error that says that a task failed, and why if the lane knows.
[[noreturn]] void throw_failed(const char* name, int block, const lanes::Lane& lane);

}  // namespace troika::schedule
