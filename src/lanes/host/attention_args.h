// What steps of attention ask of kernels, and which tokens can be asked for together.
#pragma once

#include "attention/positions.h"
#include "lanes/host/op_context.h"

namespace troika::lanes {

// What a (token, key/value head) asks for.
kernels::Attention attention_of(const BoundOp& bound, const OpContext& context, size_t token,
                                int head);

// What a token sees, but for its window, of a key/value head.
attention::Positions positions_of(const BoundOp& bound, const OpContext& context, size_t token,
                                  int head);
// The queries from a token on that share a key/value head.
attention::Queries queries_of(const BoundOp& bound, const OpContext& context, size_t token,
                              int head);

// Tokens first .. last of a run.
struct Tokens {
  size_t first, last;
};
// Returns the first of some tokens, of which each sees what the one before it sees, and perhaps
// more. Rows of a tree of drafts and of other sequences end them.
Tokens seeing_together(const Run& run, Tokens tokens);

// Returns the first of some tokens that see the same positions behind which each has its own, as
// rows of a tree of drafts do. Where windows hide some of them: only one.
Tokens branching_together(const BoundOp& bound, const Run& run, Tokens tokens);

// Returns how many of the positions that a token could see stand before its window.
size_t first_seen(const BoundOp& bound, const Run& run, size_t token);

}  // namespace troika::lanes
