// Attention of a prompt's tokens over the positions that an estimate finds worth it (S1, S2).
#pragma once

#include "lanes/host/op_context.h"

namespace troika::lanes {

// Items that workers may take in any order: some tokens and a key/value head each.
int64_t n_sparse_attention_items(const BoundAttention& attention, const Run& run, int n_workers);
// Bytes of buffers that each worker needs, a multiple of 64.
size_t sparse_attention_bytes(const BoundAttention& attention);
// Counts what grows with the texts of a run.
size_t sparse_list_bytes(const BoundAttention& attention, const Run& run);
// Computes one item. REQUIRES: keys and values of all tokens of the run are stored.
void run_sparse_attention(const BoundOp& bound, const OpContext& context, int worker, int64_t item);

}  // namespace troika::lanes
