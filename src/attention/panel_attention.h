// Attention in bfloat16 of many queries that share what is unpacked of keys and values
// (kernels/prompt_attention.h). Sums are divided at multiples of kPromptBlock of the list of
// positions and depend on that list alone: neither on the other queries nor on which queries are
// taken together.
#pragma once

#include <span>

#include "attention/positions.h"
#include "kernels/kernels.h"

namespace troika::attention {

// Says how many bytes some tokens need, when some number of them share scores. The memory begins at
// a multiple of 64 bytes.
struct PanelRoom {
  size_t head_size;
  size_t n_group;
  size_t n_tokens;
  size_t n_together;

  size_t bytes() const;
};
// Returns how many tokens have as many queries as fit a second-level cache: at least one.
size_t tokens_together(size_t n_group);

// Computes tokens, of which token t sees positions seen[t]. REQUIRES: what a token sees begins no
// earlier than for the token before it, and has no fewer positions; there is room for all tokens.
void attend_in_panels(const kernels::Table& table, const Positions& positions,
                      const Queries& queries, std::span<const kernels::SeenPositions> seen,
                      const PanelRoom& room, std::byte* workspace);

}  // namespace troika::attention
