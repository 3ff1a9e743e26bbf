// Attention of steps with many tokens: tokens that walk one list together share its keys and
// values. Bits are those of the tokens computed one by one (kernels/attention_tile.h).
#pragma once

#include "lanes/host/op_context.h"

namespace troika::lanes {

// Returns the number of items, which workers may take in any order: each is some tokens and one
// key/value head. 0: the run has too few tokens.
int64_t n_attention_tiles(const BoundAttention& attention, const Run& run, int n_workers);
// Returns how many bytes of buffers each worker needs for runs of n_tokens tokens: a multiple of
// 64.
size_t attention_tile_bytes(int head_dim, int n_tokens);
// Computes one item. REQUIRES: keys and values of all tokens of the run are stored.
void run_attention_tile(const BoundOp& bound, const OpContext& context, int worker, int64_t item);

}  // namespace troika::lanes
