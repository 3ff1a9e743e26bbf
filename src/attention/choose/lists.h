// The positions that a tile of queries keeps, as lists, out of what an estimate or blocks' means
// say (S2, S8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "attention/choose/estimate.h"

namespace troika::attention {

// The positions of a tile that begins at `begin`, in ascending order, but for its own, into `out`.
// importance[p] belongs to the positions between the first and the close ones; it is overwritten.
size_t list_of_tile(double share, size_t begin, float* importance, uint32_t* out);

// The positions of a tile with its own, in the order in which its tokens come to see them, into
// `out`: token i sees the first n_seen[i]. marks[p] is what mark_tiles says of a position; it is
// overwritten.
void list_of_marks(size_t begin, float* marks, uint32_t* out,
                   std::span<size_t, kTileTokens> n_seen);

// The alternative with blocks of 64 positions (S8): the mean of a head's queries and that of a
// block's keys say what a block is worth to the head, and a tile keeps the blocks that are worth
// most to any head; the first one, the last one and its own besides. The positions, in ascending
// order, but for the tile's own, into `out`, which has room for `begin`.
size_t list_of_blocks(const kernels::Table& table, const Positions& positions,
                      const Queries& queries, size_t begin, double share, uint32_t* out);

}  // namespace troika::attention
