// Attention of steps for many tokens at once: they share what is read of keys and values, and each
// comes to the bits of `Attention` all the same.
#pragma once

#include <algorithm>

#include "kernels/attention.h"

namespace troika::kernels {

// Some positions of a list.
struct SeenPositions {
  size_t first = 0;
  size_t last = 0;
};

// Tokens and one key/value head. Token t sees the positions seen[t] of the joined list. REQUIRES: a
// token begins no earlier than the one before it, and sees no fewer positions; or else, all begin
// at 0, see the whole prefix, and have branches.
struct AttentionTile {
  Attention first;  // of token 0: its q and out. The lists are those of the last token.
  std::span<const SeenPositions> seen;
  // What each token sees behind the prefix, in place of `own`: of tokens that branch.
  std::span<const std::span<const uint32_t>> branches = {};
  size_t q_token_stride = 0;
  size_t out_token_stride = 0;
  float* workspace = nullptr;  // attention_tile_floats, at a multiple of 64 bytes
};

// As many queries, of all heads together, go through the list side by side.
inline constexpr size_t kTileQueries = 96;
// They begin no further from each other: then a block of each lies in so many rows.
inline constexpr size_t kTileSpread = 32;
inline constexpr size_t kTileRows = kAttentionBlock + kTileSpread;
// Queries that go through a block together: they and their scores stay in the first-level cache.
inline constexpr size_t kTilePass = 24;
// Rows that no query fills are multiplied along with the last ones.
inline constexpr size_t kTileBuffers = kTileQueries + kTilePass;
// Rows are filled up to whole pairs of vectors.
inline constexpr size_t kTilePadding = 32;

// Keys and values, queries and sums, and scores.
constexpr size_t attention_tile_floats(size_t head_size) {
  const size_t row = (head_size + kTilePadding - 1) / kTilePadding * kTilePadding;
  return 2 * (kTileRows + kTileBuffers) * row + kTilePass * kTileRows;
}

// One token of a tile by itself.
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
