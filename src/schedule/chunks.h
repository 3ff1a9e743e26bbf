// Chunks of a prompt as one pass: which task waits for which, and the order that a plan asks for
// (N7). G(i, j), task j of chunk i, waits for what it waits for within its chunk; where it is
// attention, which stores the chunk's keys and values and then reads those before, it also waits
// for G(i - 1, j), and by that for all earlier chunks (llm.npu, eq. 2 and 3).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "schedule/graphs.h"
#include "schedule/scheduler.h"

namespace troika::schedule {

class ExpectedTimes;

// A chunk of a prompt: a list and what it is run with. Both must outlive the pass.
struct ChunkRun {
  const TaskList* list;
  lanes::Run run;
};

// Chunk i takes set i % n_sets of the buffers, so it begins when chunk i - n_sets has ended.
int buffer_set_of(size_t chunk, int n_sets);

// The nodes of all chunks; those of a chunk stand in the order of its list. In order, a chunk
// begins when the one before has ended. In lock step, chunks go in pairs: with each step the first
// does its next task and the second the one that the first has just done, and both wait for each
// other.
struct ChunksPass {
  Pass pass;
  std::vector<const Task*> tasks;  // of each node
};
ChunksPass pass_of_chunks(std::span<const ChunkRun> chunks, plan::Order order, int n_sets,
                          const ExpectedTimes& times);

std::unique_ptr<Policy> make_policy(plan::Order order);

}  // namespace troika::schedule
