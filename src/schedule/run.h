// Runs a list of tasks.
#pragma once

#include <span>

#include "base/trace.h"
#include "lanes/machine.h"
#include "schedule/graphs.h"

namespace troika::schedule {

// In order, each after the one before has ended: one prebuilt list without decisions. Throws Error
// where a task failed. `trace` may be null.
void run_in_order(const TaskList& list, const lanes::Run& run, lanes::Machine& machine,
                  Trace* trace = nullptr);
// A part of a list.
void run_in_order(std::span<const Task> tasks, const lanes::Run& run, lanes::Machine& machine,
                  Trace* trace = nullptr);

// Throws the Error that says that a task failed, and why if the lane knows.
[[noreturn]] void throw_failed(const char* name, int block, const lanes::Lane& lane);

}  // namespace troika::schedule
