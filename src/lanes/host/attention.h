// Steps of attention on host cores: keys and values are stored, then the workers share items of
// attention. How many tokens there are decides what kind of items.
#pragma once

#include "lanes/host/op_context.h"

namespace troika::lanes {

void run_attention(const BoundOp& bound, const OpContext& context, int index, int worker);

// Returns how many floats the segments that workers share need in such a run; 0 where the workers
// share undivided items.
size_t attention_parts_floats(const BoundOp& bound, const Run& run, int n_workers);
// Returns how many bytes of buffers each worker needs for runs of n_tokens tokens: a multiple of
// 64.
size_t attention_bytes(const BoundAttention& attention, int n_tokens);

}  // namespace troika::lanes
