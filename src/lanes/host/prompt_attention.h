// Attention of a prompt's tokens in bfloat16: many queries share the keys and values of a block.
#pragma once

#include "lanes/host/attention_args.h"

namespace troika::lanes {

// Items that workers may take in any order: some tokens and a key/value head each.
int64_t n_prompt_attention_items(const BoundAttention& attention, const Run& run);
// Bytes of buffers that each worker needs, a multiple of 64.
size_t prompt_attention_bytes(const BoundAttention& attention);
// Computes these tokens of a key/value head: those of all its query heads, or of the one at that
// place among them.
void attend_to_all(const BoundOp& bound, const OpContext& context, int worker, int head,
                   Tokens tokens, int place = -1);
// Computes one item. REQUIRES: keys and values of all tokens of the run are stored.
void run_prompt_attention(const BoundOp& bound, const OpContext& context, int worker, int64_t item);

}  // namespace troika::lanes
