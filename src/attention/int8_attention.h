// Attention over all positions in int8, as a unit computes it whose graphs have a scale for a
// tensor (S8): keys and values have one for a head, set by its first positions, beyond which they
// are clipped; the queries of a tile have one for each head, and the weights of softmax one for
// all. What stands between both products is in float.
#pragma once

#include "attention/positions.h"
#include "kernels/kernels.h"

namespace troika::attention {

struct Int8Room {
  size_t head_size;
  size_t n_group;

  size_t bytes() const;  // a multiple of 64
};

// The kTileTokens tokens from position `begin` on. REQUIRES: begin >= kMeanEnd; the positions end
// with the last token; `workspace` is at a multiple of 64 bytes.
void attend_in_int8(const kernels::Table& table, const Positions& positions, const Queries& queries,
                    size_t begin, const Int8Room& room, std::byte* workspace);

}  // namespace troika::attention
