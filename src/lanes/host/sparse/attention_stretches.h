// Which tokens of a run choose what they see, and which see everything.
#pragma once

#include "lanes/host/attention/attention_args.h"

namespace troika::lanes {

size_t position_of(const Run& run, size_t token);
// Returns how many positions the token of a run sees that sees most.
size_t most_seen(const Run& run);

// Tokens of a run that attend in the same way: they form whole tiles, or each chooses for itself,
// or all see everything.
struct Stretch {
  Tokens tokens;
  bool is_sparse;
};

// Returns the stretch that begins with the first of some tokens that see together.
Stretch stretch_of(const BoundAttention& attention, const Run& run, Tokens together);

// Calls take(stretch) for each stretch of a run, in order.
template <typename Take>
void for_stretches(const BoundAttention& attention, const Run& run, const Take& take) {
  const auto n_tokens = static_cast<size_t>(run.n_tokens);
  for (Tokens rest = {0, 0}; rest.last < n_tokens;) {
    rest = seeing_together(run, {rest.last, n_tokens});
    while (rest.first < rest.last) {
      const Stretch stretch = stretch_of(attention, run, rest);
      take(stretch);
      rest.first = stretch.tokens.last;
    }
  }
}

}  // namespace troika::lanes
