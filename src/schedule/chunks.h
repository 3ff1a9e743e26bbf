// Chunks of a prompt as one pass: which task waits for which, and the order that a plan asks for
// (N7). G(i, j), task j of chunk i, waits for what it waits for within its chunk; where it is
// attention, which stores the chunk's keys and values and then reads those before, it also waits
// for G(i - 1, j), and by that for all earlier chunks (llm.npu, eq. 2 and 3).
#pragma once

#include <span>

#include "plan/plan.h"
#include "schedule/graphs.h"
#include "schedule/pass.h"

namespace troika::schedule {

// Chunk i takes set i % n_sets of the buffers, so it begins when chunk i - n_sets has ended.
int buffer_set_of(size_t chunk, int n_sets);

// The nodes of all chunks, of each the list that it runs; those of a chunk stand in the order of
// its list, and ask for run number i of what the pass is run with. In order, a chunk begins when
// the one before has ended. In lock step, chunks go in pairs: with each step the first does its
// next task and the second the one that the first has just done, and both wait for each other.
// REQUIRES: run i takes buffer_set_of(i, n_sets). The lists must outlive the pass.
Pass pass_of_chunks(std::span<const TaskList* const> chunks, plan::Order order, int n_sets);

}  // namespace troika::schedule
