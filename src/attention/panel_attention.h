// Attention of many queries that share what is unpacked of keys and values, in bfloat16
// (kernels/prompt_attention.h). Sums are divided at multiples of kPromptBlock of the list of
// positions and depend on that list alone: neither on the other queries nor on how they are taken
// together.
#pragma once

#include <span>

#include "attention/positions.h"
#include "kernels/kernels.h"

namespace troika::attention {

// Bytes for so many tokens, of which so many share scores, at a multiple of 64 bytes.
struct PanelRoom {
  size_t head_size;
  size_t n_group;
  size_t n_tokens;
  size_t n_together;

  size_t bytes() const;
};
// How many tokens have as many queries as fit a second-level cache: at least one.
size_t tokens_together(size_t n_group);

// Token t sees the positions seen[t]. REQUIRES: a token begins no earlier than the one before it,
// and sees no fewer positions; no more tokens than there is room for.
void attend_in_panels(const kernels::Table& table, const Positions& positions,
                      const Queries& queries, std::span<const kernels::SeenPositions> seen,
                      const PanelRoom& room, std::byte* workspace);

}  // namespace troika::attention
