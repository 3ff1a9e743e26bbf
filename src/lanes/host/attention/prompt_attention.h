// Attention of a prompt's tokens in bfloat16: many queries share the keys and values of a block.
#pragma once

#include "lanes/host/attention/attention_args.h"

namespace troika::lanes {

// Returns the number of items, which workers may take in any order: each is some tokens and one
// key/value head.
int64_t n_prompt_attention_items(const BoundAttention& attention, const Run& run);
// Returns how many bytes of buffers each worker needs: a multiple of 64.
size_t prompt_attention_bytes(const BoundAttention& attention);
// Computes attention of these tokens for the query heads that share a key/value head; or, where
// `place` is not -1, for the query head at that place among them.
void attend_to_all(const BoundOp& bound, const OpContext& context, int worker, int head,
                   Tokens tokens, int place = -1);
// Computes one item. REQUIRES: keys and values of all tokens of the run are stored.
void run_prompt_attention(const BoundOp& bound, const OpContext& context, int worker, int64_t item);

}  // namespace troika::lanes
