// Attention of a prompt as the paper has it (S1, S2): each query of each head chooses its own
// positions among those it may see, by an estimate in int8 before softmax and without mask, and
// attends to these exactly, in float. Where all positions are chosen, the bits are those of
// attention in steps.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "attention/areas.h"
#include "attention/choose/estimate.h"
#include "attention/choose/key_levels.h"
#include "attention/choose/scale_buckets.h"
#include "attention/positions.h"
#include "kernels/kernels.h"

namespace troika::attention {

// Estimates queries of heads that share a head of keys. Each query and each position has a scale of
// its own. With buckets (S4), the queries of a head in a tile of 64 tokens, and the keys before the
// tile, have instead the pair of scales nearest to their own scales, which their largest magnitudes
// set. It changes no bit which queries are estimated together.
class QueryEstimate {
 public:
  static constexpr size_t kMostTokens = 16;  // at most this many tokens are estimated at once

  // Takes the memory that it needs from `areas`. REQUIRES: the positions end with the last of the
  // tokens, whose first is at `begin` >= kMeanEnd; where there are buckets, both are multiples of a
  // tile.
  QueryEstimate(const kernels::Table& table, const Positions& positions, const Queries& queries,
                size_t begin, std::span<const ScalePair> buckets, Areas& areas);
  // Only counts the memory that the constructor would take.
  static void count(size_t head_size, size_t n_positions, Areas& areas);

  // Scores the queries of one head, of tokens first .. first + n, against the positions up to the
  // last of them; rows of scores are `stride` floats apart. REQUIRES: n <= kMostTokens; with
  // buckets, the tokens are of one tile.
  void score(size_t first, size_t n, size_t head, float* scores, size_t stride);
  // Scores the queries of some heads, of tokens first .. last; those of a head begin at
  // scores_of(head, token). Tile after tile, so that keys are searched and packed once for all
  // heads that take the same scale of keys. REQUIRES: with buckets, `first` begins a tile.
  template <typename ScoresOf>
  void score_heads(size_t first, size_t last, std::span<const size_t> heads, size_t stride,
                   const ScoresOf& scores_of) {
    for (size_t tile = first; tile < last; tile += kTileTokens) {
      const size_t end = std::min(tile + kTileTokens, last);
      for (const size_t head : heads) {
        for (size_t token = tile; token < end; token += kMostTokens) {
          score(token, std::min(kMostTokens, end - token), head, scores_of(head, token), stride);
        }
      }
    }
  }

 private:
  ScalePair limits_of(size_t tile, size_t head);
  void pack_keys(float limit);

  const kernels::Table& table_;
  const Positions& positions_;
  const Queries& queries_;
  size_t begin_;
  std::span<const ScalePair> buckets_;
  KeyLevels keys_;
  std::byte* levels_;  // (kMostTokens, query_level_bytes)
  float* scaled_;      // (head_size)
  bool is_packed_ = false;
  float packed_limit_ = 0.0f;
  // Counts the keys whose largest magnitude is known already; the search goes on from there.
  size_t n_looked_ = 0;
  float largest_key_ = 0.0f;
  size_t limits_tile_ = SIZE_MAX, limits_head_ = 0;
  ScalePair limits_;
};

// The scales of a tile's queries, for each head that shares a head of keys, and of the keys before
// the tile. With its scale the largest magnitude becomes 127; no scale is 0.
struct ScalesOfTile {
  std::vector<float> q;  // (n_group)
  float k = 0.0f;
};
// Finds the scales of a tile. REQUIRES: the tile begins with the first of the queries, at position
// `begin` >= kMeanEnd.
ScalesOfTile scales_of_tile(const kernels::Table& table, const Positions& positions,
                            const Queries& queries, size_t begin);

// Chooses the best positions of a query by their scores (S2): its share of the positions that it
// sees. Writes them to `chosen`, which has room for all, and returns how many.
size_t choose_positions(const kernels::Table& table, std::span<const float> scores, double share,
                        uint32_t* chosen);
// Attends to chosen positions of a query; the list of positions is overwritten by their slots.
void attend_to_chosen(const kernels::Table& table, const Positions& positions,
                      const Queries& queries, size_t token, size_t head,
                      std::span<uint32_t> chosen);

struct QueryRoom {
  size_t head_size;
  size_t n_group;

  size_t bytes(size_t n_positions) const;  // a multiple of 64
};

// Computes the tokens at positions `begin` .. begin + n_tokens, for one head of keys. A query of
// query head h of those that share it keeps share_of(h) of what it sees (S3). REQUIRES: begin >=
// kLeastPositions; the positions end with the last token; `workspace` is at a multiple of 64 bytes;
// with buckets, the tokens are whole tiles.
void attend_by_query(const kernels::Table& table, const Positions& positions,
                     const Queries& queries, size_t begin, size_t n_tokens,
                     const std::function<double(size_t head)>& share_of,
                     std::span<const ScalePair> buckets, const QueryRoom& room,
                     std::byte* workspace);

}  // namespace troika::attention
