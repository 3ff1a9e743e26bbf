// Measures how well an estimate in int8 finds the positions that are best by float scores (S1:
// Table 4 of shadowAttn), and how much of queries and keys fixed scales clip (S4).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "attention/choose/scale_buckets.h"
#include "attention/positions.h"
#include "kernels/kernels.h"

namespace troika::attention {

// Lists the shares of positions for which recall is measured.
inline constexpr std::array<double, 5> kRecallShares = {0.2, 0.3, 0.4, 0.5, 0.8};

// Where queries and keys take their scales from.
struct EstimateWay {
  bool takes_mean = true;  // subtracts the keys' mean
  // If set, each query and each position has its own scale. Else the queries of a head in a tile
  // share one scale, and so do the keys up to the end of the tile. It is their own, or that of the
  // bucket nearest to the scales of the queries and of the keys before the tile, as where a model
  // runs (QueryEstimate).
  bool has_own_scales = true;
  std::vector<ScalePair> buckets = {};
};

// Results for some queries.
struct EstimateRecall {
  size_t n_queries = 0;
  std::array<double, kRecallShares.size()> recall{};  // added up over queries
  size_t n_query_values = 0, n_clipped_of_queries = 0;
  size_t n_key_values = 0, n_clipped_of_keys = 0;

  void add(const EstimateRecall& other);
};

// Adds the results of each way for some queries of a tile. REQUIRES: the tile is whole and begins
// with the first of the queries, at position `begin` >= kLeastPositions.
void add_recall(const kernels::Table& table, const Positions& positions, const Queries& queries,
                size_t begin, std::span<const EstimateWay> ways, std::span<EstimateRecall> recalls);

}  // namespace troika::attention
