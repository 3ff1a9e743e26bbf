// Runs a list of tasks.
#pragma once

#include "lanes/lane.h"
#include "schedule/graphs.h"

namespace troika::schedule {

// In order, each after the one before has ended. Throws Error where a task failed.
void run_in_order(const TaskList& list, const lanes::Run& run);

}  // namespace troika::schedule
