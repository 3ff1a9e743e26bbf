// What steps of attention ask of kernels, and which tokens can be asked for in one call.
#pragma once

#include "attention/positions.h"
#include "lanes/host/op_context.h"

namespace troika::lanes {

// Returns what a (token, key/value head) asks of a kernel.
kernels::Attention attention_of(const BoundOp& bound, const OpContext& context, size_t token,
                                int head);

// Returns the positions of a key/value head that a token would see without a window.
attention::Positions positions_of(const BoundOp& bound, const OpContext& context, size_t token,
                                  int head);
// Returns the queries of a key/value head, from a token on.
attention::Queries queries_of(const BoundOp& bound, const OpContext& context, size_t token,
                              int head);

// Names tokens first .. last of a run.
struct Tokens {
  size_t first, last;
};
// Returns the longest beginning of some tokens in which each token sees what the one before it
// sees, and perhaps more. Rows of a tree of drafts and of other sequences end it.
Tokens seeing_together(const Run& run, Tokens tokens);

// Returns the longest beginning of some tokens that see the same positions and behind them each a
// tail of its own, as rows of a tree of drafts do. Where windows hide some of the positions, it
// returns one token only.
Tokens branching_together(const BoundOp& bound, const Run& run, Tokens tokens);

// Returns how many of the positions that a token could see stand before its window.
size_t first_seen(const BoundOp& bound, const Run& run, size_t token);

}  // namespace troika::lanes
