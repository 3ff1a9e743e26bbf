// Estimates in int8 which positions a tile of queries needs (S1). Some of the tile's queries meet
// all keys before the tile. A position matters to the tile as much as to the query to which it
// matters most; to a query it matters by the logarithm of the probability that the query gives it.
//
// The sum of a query's scores is known only when all scores are, and to look at them twice would
// cost as much again. So the sum is estimated, too: the first positions and those close by are
// summed, and of the others every 32nd stands for its neighbours. The largest of these counts only
// once: where a heavy position happens to be a sample, its neighbours need not be as heavy.
//
// mark_tiles says instead from which query on a position matters: from the first query that gives
// it more than `above` times its equal share. Then no query sees what a later one chose, and what a
// query chooses does not depend on anything behind it.
#pragma once

#include "attention/positions.h"
#include "kernels/kernels.h"

namespace troika::attention {

inline constexpr size_t kTileTokens = 64;  // tokens of a tile; each tile begins at a multiple of it
inline constexpr size_t kFirst = 16;       // the first positions (sinks), which every tile keeps
inline constexpr size_t kLocal = 64;       // the positions close before a tile, which it keeps
inline constexpr size_t kSampleStride = 32;
inline constexpr size_t kQueryStride = 2;  // every second token of a tile is estimated
// A tile that chooses has at least this many positions before it: enough to estimate from.
inline constexpr size_t kLeastPositions = 512;

// The memory for estimating some consecutive tiles of one head of keys.
struct EstimateRoom {
  size_t head_size;
  size_t n_group;
  size_t n_tiles;

  size_t bytes() const;  // a multiple of 64
};
// Returns how many tiles share what is made of keys: many queries do, but no more than caches hold.
size_t tiles_together(size_t n_group);

// Writes importance[t * stride + p] for each tile t and each position kFirst <= p < begin + t *
// kTileTokens - kLocal. Returns the first of these positions, or of those behind them, whose key is
// infinite or no number, or kNoPosition: what an estimate says of keys behind it is worth nothing.
// REQUIRES: `begin`, the position of the first token, is a multiple of
// kTileTokens and at least kLeastPositions; all tokens of the tiles are among the positions.
size_t estimate_tiles(const kernels::Table& table, const Positions& positions,
                      const Queries& queries, size_t begin, const EstimateRoom& room,
                      std::byte* workspace, float* importance, size_t stride);

// Writes marks[t * stride + p] for the positions for which estimate_tiles writes importance: the
// token of tile t from which on the position is seen, or kNeverSeen. Every second token, from the
// first one on, chooses what weighs more than `above` / (the position of the tile's first token).
// Returns what estimate_tiles returns. REQUIRES: what estimate_tiles requires.
inline constexpr float kNeverSeen = kTileTokens;
size_t mark_tiles(const kernels::Table& table, const Positions& positions, const Queries& queries,
                  size_t begin, double above, const EstimateRoom& room, std::byte* workspace,
                  float* marks, size_t stride);

}  // namespace troika::attention
