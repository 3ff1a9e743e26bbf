// Steps of attention on host cores: keys and values are stored, then the workers share items of
// attention. How many tokens there are decides what kind of items.
#pragma once

#include "lanes/host/op_context.h"

namespace troika::lanes {

void run_attention(const BoundOp& bound, const OpContext& context, int index, int worker);

// Says whether the op takes lists of the positions that are worth it.
bool takes_lists(const BoundAttention& attention);

// Returns how many floats a run takes that grow with its texts: for segments that the workers
// share, or for the lists of sparse attention. 0: none.
size_t attention_parts_floats(const BoundOp& bound, const Run& run, int n_workers);

// Limits runs: the tokens of one, and the positions that a token sees.
struct AttentionReach {
  int n_tokens;
  size_t n_positions;
};
// Returns the most floats that attention_parts_floats() can be for runs within these limits.
size_t most_attention_parts_floats(const BoundAttention& attention, int window,
                                   const AttentionReach& reach, int n_workers);
// Returns how many bytes of buffers each worker needs for runs of n_tokens tokens: a multiple of
// 64.
size_t attention_bytes(const BoundAttention& attention, int n_tokens);

}  // namespace troika::lanes
