// Which positions a tile of queries needs, estimated in int8 (S1). Some of its queries meet all
// keys before the tile; a position matters as much as to the query to which it matters most: the
// largest logarithm of the probability that an estimated query gives it.
//
// What the scores of a query add up to is not known before all of them are, and to look at them
// twice would cost as much again. So it is estimated too: the first positions and those close by
// are summed, of the others every 32nd stands for its neighbours. But the largest of these counts
// once: where a heavy position happens to be looked at, its neighbours are no heavier for it.
//
// Or a position matters from the first query on to which it does (mark_tiles): where a query gives
// it more than so many times what it would have if all had the same. No query sees what a later one
// chose, and what a query chooses depends on nothing behind it.
#pragma once

#include "attention/positions.h"
#include "kernels/kernels.h"

namespace troika::attention {

inline constexpr size_t kTileTokens = 64;  // of a tile, from multiples of it on
inline constexpr size_t kFirst = 16;       // positions that every tile keeps: sinks
inline constexpr size_t kLocal = 64;       // positions before a tile that it keeps
inline constexpr size_t kSampleStep = 32;
inline constexpr size_t kQueryStep = 2;  // of a tile's tokens every second one is estimated
// Fewer positions stand before no tile that chooses: there are enough to estimate from.
inline constexpr size_t kLeastPositions = 512;

// Some tiles that follow each other, of one head of keys.
struct EstimateRoom {
  size_t head_size;
  size_t n_group;
  size_t n_tiles;

  size_t bytes() const;  // a multiple of 64
};
// How many tiles share what is made of keys: many queries, but not more than caches hold.
size_t tiles_together(size_t n_group);

// For tile t and the positions kFirst <= p < begin + t * kTileTokens - kLocal, importance[t *
// stride + p] is written. REQUIRES: `begin`, the position of the first token, is a multiple of
// kTileTokens and at least kLeastPositions; all tokens of the tiles are among the positions.
void estimate_tiles(const kernels::Table& table, const Positions& positions, const Queries& queries,
                    size_t begin, const EstimateRoom& room, std::byte* workspace, float* importance,
                    size_t stride);

// Says for the same positions from which token of tile t on each is seen, in marks[t * stride + p],
// kNeverSeen where it is by none: every second token, from the first one on, chooses what weighs
// more than `above` / (the position of the tile's first token). REQUIRES: the same.
inline constexpr float kNeverSeen = kTileTokens;
void mark_tiles(const kernels::Table& table, const Positions& positions, const Queries& queries,
                size_t begin, double above, const EstimateRoom& room, std::byte* workspace,
                float* marks, size_t stride);

}  // namespace troika::attention
