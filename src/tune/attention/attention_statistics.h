// Finds how much of its attention each head would keep of a text, by the share of positions that it
// may keep (S3).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "lanes/lane.h"
#include "model/blueprint.h"

namespace troika::tune {

// Lists the shares of positions that are looked at.
inline constexpr std::array<double, 10> kKeptShares = {0.02, 0.05, 0.1, 0.15, 0.2,
                                                       0.3,  0.4,  0.6, 0.8,  1.0};
using KeptMass = std::array<double, kKeptShares.size()>;
// Lists the thresholds that are looked at: how many times the mean weight a position must have.
inline constexpr std::array<double, 4> kTriedAbove = {20, 10, 5, 2.5};

// What the threshold kTriedAbove[i] keeps of a head.
struct KeptByWeight {
  double mean = 1.0;   // the part of a query's weight that is kept, on average
  double worst = 1.0;  // the part that is kept in the worst tenth of the queries
  double share = 1.0;  // the share of positions that are kept
};

// Looks at some tiles of a prompt, and for some queries of a tile at how much of the weight of
// their softmax lies in the list that the tile would have.
class AttentionStatistics : public lanes::InputObserver {
 public:
  // Looks at tiles from position `from` on, each tile_stride-th of them.
  AttentionStatistics(const kernels::Table& table, const model::Blueprint& blueprint, size_t from,
                      size_t tile_stride);

  void observe(const model::Op&, const float*, int, int) override {}
  void observe_attention(const model::Op& op, int key_head, const attention::Positions& positions,
                         const attention::Queries& queries, size_t n_tokens) override;

  // Returns (n_layers * n_kv_heads) means of what a head of keys keeps of its queries' weight; all
  // of it where nothing was seen.
  std::vector<KeptMass> mean_kept() const;
  // Returns (n_layers * n_kv_heads) lists of what each threshold keeps.
  std::vector<std::array<KeptByWeight, kTriedAbove.size()>> kept_by_weight() const;
  size_t n_seen() const;  // counts queries
  // Returns (n_layers, n_heads, 2) scales (S4). Divided by the first, the largest magnitude of a
  // head's queries in a tile becomes 127; divided by the second, that of the keys before the tile
  // less their mean does. Both are means over tiles. Heads of which nothing was seen, as those that
  // see a window, have the mean of the others; all have 1 where nothing was seen at all.
  std::vector<float> head_scales() const;

 private:
  // What is kept of one query's weight.
  struct Kept {
    std::array<float, kKeptShares.size()> by_share;
    std::array<float, kTriedAbove.size()> by_weight;
    std::array<float, kTriedAbove.size()> share_by_weight;
  };

  void look_at_scales(const attention::Positions& positions, const attention::Queries& queries,
                      size_t begin, size_t first_head);
  void look_at_tile(const attention::Positions& positions, const attention::Queries& queries,
                    size_t begin, std::vector<Kept>* kept) const;
  void look_by_weight(const attention::Positions& positions, const attention::Queries& queries,
                      size_t begin, const std::vector<std::vector<float>>& weights,
                      std::span<Kept> kept) const;

  const kernels::Table& table_;
  size_t n_kv_heads_;
  size_t from_;
  size_t tile_stride_;
  // What each head of keys kept for each query that was looked at.
  std::vector<std::vector<Kept>> kept_;
  // The sums of the scales of a head of queries.
  struct ScaleSums {
    double q = 0, k = 0;
    size_t n = 0;
  };
  std::vector<ScaleSums> scales_;  // (n_layers * n_heads)
};

}  // namespace troika::tune
