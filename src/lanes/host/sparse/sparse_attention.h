// Attention of a prompt's tokens over the positions that an estimate finds worth attending to (S1,
// S2).
#pragma once

#include "lanes/host/op_context.h"

namespace troika::lanes {

// Returns the number of items, which workers may take in any order: each is some tokens and one
// key/value head.
int64_t n_sparse_attention_items(const BoundAttention& attention, const Run& run, int n_workers);
// Returns how many bytes of buffers each worker needs: a multiple of 64.
size_t sparse_attention_bytes(const BoundAttention& attention);
// Counts the bytes of those buffers that grow with the text, for tokens that see at most
// n_positions positions.
size_t sparse_list_bytes(const BoundAttention& attention, size_t n_positions);
// Computes one item. REQUIRES: keys and values of all tokens of the run are stored.
void run_sparse_attention(const BoundOp& bound, const OpContext& context, int worker, int64_t item);

}  // namespace troika::lanes
