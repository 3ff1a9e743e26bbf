// Attention of a prompt as the paper has it (S1, S2): each query of each head chooses its own
// positions among those it may see, by an estimate in int8 before softmax and without mask, and
// attends to those exactly, in float. With all positions it is attention of steps to the bit.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "attention/areas.h"
#include "attention/choose/key_levels.h"
#include "attention/choose/scale_buckets.h"
#include "attention/positions.h"
#include "kernels/kernels.h"

namespace troika::attention {

// Estimates queries of heads that share a head of keys. Each query and each position has a scale of
// its own; or, with buckets (S4), the queries of a head in a tile of 64 tokens and the keys have
// the pair of scales that is nearest to theirs: the largest magnitude of the tile's queries, and of
// the keys before the tile. Which queries are estimated together changes no bit.
class QueryEstimate {
 public:
  static constexpr size_t kMostTokens = 16;  // at once

  // Takes from `areas` what it needs. REQUIRES: the positions end with the last of the tokens,
  // whose first is at `begin` >= kMeanEnd; where there are buckets, both are multiples of a tile.
  QueryEstimate(const kernels::Table& table, const Positions& positions, const Queries& queries,
                size_t begin, std::span<const ScalePair> buckets, Areas& areas);
  // Only counts what that would take.
  static void count(size_t head_size, size_t n_positions, Areas& areas);

  // Scores of the queries of a head of tokens first .. first + n with all positions, `stride`
  // floats from one token to the next. REQUIRES: n <= kMostTokens; with buckets, the tokens are of
  // one tile.
  void score(size_t first, size_t n, size_t head, float* scores, size_t stride);

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
  // So many keys were looked at for their largest magnitude; it is looked for from there on.
  size_t n_looked_ = 0;
  float largest_key_ = 0.0f;
  size_t limits_tile_ = SIZE_MAX, limits_head_ = 0;
  ScalePair limits_;
};

// The scales of a tile's queries, of each head that shares a head of keys, and of the keys before
// it: those by which their largest magnitude becomes 127, and never 0.
struct ScalesOfTile {
  std::vector<float> q;  // (n_group)
  float k = 0.0f;
};
// REQUIRES: the tile begins at position `begin` >= kMeanEnd, with the first of the queries.
ScalesOfTile scales_of_tile(const kernels::Table& table, const Positions& positions,
                            const Queries& queries, size_t begin);

// Chooses the best positions of a query by their scores (S2), as many as its share of what it sees
// comes to, into `chosen`, which has room for them. Returns how many.
size_t choose_positions(std::span<const float> scores, double share, uint32_t* chosen);
// Attends to these positions of a query, which become their slots.
void attend_to_chosen(const kernels::Table& table, const Positions& positions,
                      const Queries& queries, size_t token, size_t head,
                      std::span<uint32_t> chosen);

struct QueryRoom {
  size_t head_size;
  size_t n_group;

  size_t bytes(size_t n_positions) const;  // a multiple of 64
};

// The tokens at positions `begin` .. begin + n_tokens, of one head of keys. A query of query head h
// of those that share it keeps share_of(h) of what it sees (S3). REQUIRES: begin >=
// kLeastPositions; the positions end with the last token; `workspace` is at a multiple of 64 bytes;
// with buckets, the tokens are whole tiles.
void attend_by_query(const kernels::Table& table, const Positions& positions,
                     const Queries& queries, size_t begin, size_t n_tokens,
                     const std::function<double(size_t head)>& share_of,
                     std::span<const ScalePair> buckets, const QueryRoom& room,
                     std::byte* workspace);

}  // namespace troika::attention
