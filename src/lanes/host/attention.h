// Steps of attention: keys and values are stored, then the workers share items of attention, whose
// kind depends on how many tokens there are.
#pragma once

#include "lanes/host/op_context.h"

namespace troika::lanes {

void run_attention(const BoundOp& bound, const OpContext& context, int index, int worker);

// Room for the segments that workers share in such a run; 0 where they share whole items.
size_t attention_parts_floats(const BoundOp& bound, const Run& run, int n_workers);
// Bytes of buffers that each worker needs for runs of so many tokens, a multiple of 64.
size_t attention_bytes(const BoundAttention& attention, int n_tokens);

}  // namespace troika::lanes
