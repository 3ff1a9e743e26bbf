// Attention over all positions in int8, as units compute it whose graphs have one scale for a
// tensor (S8). Keys and values have one scale for a head, set by its first positions: larger values
// are clipped. The queries of a tile have one scale for each head, and all weights of softmax have
// one, whose levels are rounded once more by row. Between the two products everything is in float.
#pragma once

#include "attention/positions.h"
#include "kernels/kernels.h"

namespace troika::attention {

struct Int8Room {
  size_t head_size;
  size_t n_group;

  size_t bytes() const;  // a multiple of 64
};

// Computes the kTileTokens tokens from position `begin` on. REQUIRES: begin >= kMeanEnd; the
// positions end with the last token; `workspace` is at a multiple of 64 bytes.
void attend_in_int8(const kernels::Table& table, const Positions& positions, const Queries& queries,
                    size_t begin, const Int8Room& room, std::byte* workspace);

}  // namespace troika::attention
