// Chunks of a prompt as one pass: which task waits for which, and the order that a plan asks for
// (N7). Task j of chunk i, G(i, j), waits for other tasks of its chunk. If it is attention, which
// stores the chunk's keys and values and then reads those of earlier chunks, it also waits for G(i
// - 1, j), and so for all earlier chunks (llm.npu, eq. 2 and 3).
#pragma once

#include <span>

#include "plan/plan.h"
#include "schedule/graphs.h"
#include "schedule/pass.h"

namespace troika::schedule {

// Returns the set of buffers of a chunk. Chunk i takes set i % n_sets, so it begins when chunk i -
// n_sets has ended.
int buffer_set_of(size_t chunk, int n_sets);

// Makes a pass of all chunks. A chunk's nodes stand in the order of the list that it runs, and
// chunk i takes run number i of what the pass is run with. In order, a chunk begins when the one
// before has ended. In lock step, chunks go in pairs: in each step the first chunk does its next
// task and the second the task that the first has just done, and both wait for each other.
// REQUIRES: run i takes buffer_set_of(i, n_sets). The lists must outlive the pass.
Pass pass_of_chunks(std::span<const TaskList* const> chunks, plan::Order order, int n_sets);

}  // namespace troika::schedule
