// Runs parts of sparse attention that are tasks of their own, for one head or for several (S5, S6):
// the estimate of queries, the selection of their positions, and attention over these positions.
#pragma once

#include <span>
#include <vector>

#include "lanes/host/op_context.h"

namespace troika::lanes {

// Returns the heads of keys that a task's heads of queries use, where n_group of all share one.
std::vector<BoundAttention::KeyHead> key_heads_of(std::span<const int> query_heads, int n_group);

// Runs an op whose role is a part of sparse attention. REQUIRES: keys and values of all tokens of
// the run are stored, and the part before this one has ended.
void run_head_part(const BoundOp& bound, const OpContext& context, int index, int worker);

// Returns how many bytes of lists each worker needs for a part whose tokens see at most n_positions
// positions: a multiple of 64.
size_t head_list_bytes(const BoundAttention& attention, size_t n_positions);

}  // namespace troika::lanes
