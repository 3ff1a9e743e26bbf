// Makes the lists of positions that a tile of queries keeps, from what an estimate or the means of
// blocks say (S2, S8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "attention/choose/estimate.h"

namespace troika::attention {

// Writes the positions that a tile which begins at `begin` keeps, in ascending order and without
// the tile's own, to `out`, which has room for `begin`. Returns how many. importance[p] belongs to
// the positions between the first and the close ones; it is overwritten.
size_t list_of_tile(const kernels::Table& table, double share, size_t begin, float* importance,
                    uint32_t* out);

// Writes the positions of a tile with its own, in the order in which its tokens come to see them,
// to `out`: token i sees the first n_seen[i]. marks[p] is what mark_tiles says of a position; it is
// overwritten.
void list_of_marks(size_t begin, float* marks, uint32_t* out,
                   std::span<size_t, kTileTokens> n_seen);

// Makes the list by blocks of 64 positions instead (S8). The mean of a head's queries and that of a
// block's keys say what a block is worth to the head. A tile keeps the blocks that are worth most
// to any head, and always the first block, the last one and its own. Writes the positions, in
// ascending order and without the tile's own, to `out`, which has room for `begin`. Returns how
// many.
size_t list_of_blocks(const kernels::Table& table, const Positions& positions,
                      const Queries& queries, size_t begin, double share, uint32_t* out);

}  // namespace troika::attention
