// Attention of steps for many tokens at once: the tokens share what is read of keys and values, and
// each has the bits of `Attention`.
#pragma once

#include <algorithm>

#include "kernels/attention.h"

namespace troika::kernels {

// A stretch of a list of positions.
struct SeenPositions {
  size_t first = 0;
  size_t last = 0;
};

// Attention of some tokens and one key/value head. Token t sees the positions seen[t] of the joined
// list. REQUIRES: a token's positions begin no earlier than those of the token before, and are no
// fewer; or all begin at 0, contain the whole prefix, and have branches.
struct AttentionTile {
  Attention first;  // token 0, with its q and out; the lists are those of the last token
  std::span<const SeenPositions> seen;
  // What each token sees behind the prefix instead of `own`, where tokens branch.
  std::span<const std::span<const uint32_t>> branches = {};
  size_t q_token_stride = 0;
  size_t out_token_stride = 0;
  float* workspace = nullptr;  // attention_tile_floats() floats, at a multiple of 64 bytes
};

// At most this many queries, over all heads, go through the list of positions side by side.
inline constexpr size_t kTileQueries = 96;
// The first positions that the tokens of a tile see are no further apart than this: then one block
// of each token lies within kTileRows rows.
inline constexpr size_t kTileSpread = 32;
inline constexpr size_t kTileRows = kAttentionBlock + kTileSpread;
// Counts the queries that go through a block together: few enough that they and their scores stay
// in the first-level cache.
inline constexpr size_t kTilePass = 24;
// Rows without a query are multiplied along with the last queries.
inline constexpr size_t kTileBuffers = kTileQueries + kTilePass;
// Rows are filled up to a multiple of this: whole pairs of vectors.
inline constexpr size_t kTilePadding = 32;

// Returns the room for keys and values, for queries and sums, and for scores.
constexpr size_t attention_tile_floats(size_t head_size) {
  const size_t row = (head_size + kTilePadding - 1) / kTilePadding * kTilePadding;
  return 2 * (kTileRows + kTileBuffers) * row + kTilePass * kTileRows;
}

// Returns one token of a tile by itself.
inline Attention token_of(const AttentionTile& tile, size_t token) {
  const SeenPositions seen = tile.seen[token];
  const size_t n_prefix = tile.first.prefix.size();
  const auto cut = [](std::span<const uint32_t> list, size_t first, size_t last) {
    first = std::min(first, list.size());
    return list.subspan(first, std::min(last, list.size()) - first);
  };
  Attention one = tile.first;
  one.q += token * tile.q_token_stride;
  one.out += token * tile.out_token_stride;
  if (!tile.branches.empty()) {
    one.own = tile.branches[token];
    return one;
  }
  one.prefix = cut(tile.first.prefix, seen.first, seen.last);
  one.own = cut(tile.first.own, std::max(seen.first, n_prefix) - n_prefix,
                std::max(seen.last, n_prefix) - n_prefix);
  return one;
}

}  // namespace troika::kernels
