#include "attention/query_attention.h"

#include <algorithm>

#include "attention/choose/select.h"
#include "base/error.h"

namespace troika::attention {
namespace {

struct QueryAreas {
  float* scores;     // (kMostTokens, n_positions)
  uint32_t* chosen;  // (n_positions): positions, then slots

  QueryAreas(size_t n_positions, Areas& areas) {
    scores = areas.take<float>(QueryEstimate::kMostTokens * n_positions);
    chosen = areas.take<uint32_t>(n_positions);
  }
};

}  // namespace

QueryEstimate::QueryEstimate(const kernels::Table& table, const Positions& positions,
                             const Queries& queries, size_t begin,
                             std::span<const ScalePair> buckets, Areas& areas)
    : table_(table),
      positions_(positions),
      queries_(queries),
      begin_(begin),
      buckets_(buckets),
      keys_(areas, queries.head_size, positions.size()) {
  TROIKA_ASSERT(begin >= kMeanEnd && begin <= positions.size());
  TROIKA_ASSERT(buckets.empty() || begin % kTileTokens == 0);
  levels_ = areas.take<std::byte>(kMostTokens * query_level_bytes(queries.head_size));
  scaled_ = areas.take<float>(queries.head_size);
  keys_.set_mean(table, positions);
}

void QueryEstimate::count(size_t head_size, size_t n_positions, Areas& areas) {
  const KeyLevels keys(areas, head_size, n_positions);
  areas.take<std::byte>(kMostTokens * query_level_bytes(head_size));
  areas.take<float>(head_size);
}

// Returns the largest magnitudes that the scales of the nearest bucket can express.
ScalePair QueryEstimate::limits_of(size_t tile, size_t head) {
  if (tile == limits_tile_ && head == limits_head_) return limits_;
  const size_t n_before = begin_ + tile * kTileTokens;
  if (n_before < n_looked_) n_looked_ = 0, largest_key_ = 0.0f;
  largest_key_ = std::max(largest_key_, keys_.largest_of(table_, positions_, n_looked_, n_before));
  n_looked_ = n_before;
  float largest = 0.0f;
  for (size_t t = tile * kTileTokens; t < (tile + 1) * kTileTokens; ++t) {
    largest = std::max(largest, largest_of_query(table_, queries_, t, head, scaled_));
  }
  const ScalePair& bucket =
      buckets_[nearest_bucket(buckets_, {largest / kMostLevel, largest_key_ / kMostLevel})];
  limits_tile_ = tile;
  limits_head_ = head;
  return limits_ = {bucket.q * kMostLevel, bucket.k * kMostLevel};
}

void QueryEstimate::pack_keys(float limit) {
  if (is_packed_ && limit == packed_limit_) return;
  keys_.set_limit(limit);
  keys_.pack(table_, positions_, 0, positions_.size(), [](size_t i) { return i; });
  is_packed_ = true;
  packed_limit_ = limit;
}

void QueryEstimate::score(size_t first, size_t n, size_t head, float* scores, size_t stride) {
  TROIKA_ASSERT(n <= kMostTokens);
  ScalePair limits = {0.0f, 0.0f};
  if (!buckets_.empty()) limits = limits_of(first / kTileTokens, head);
  pack_keys(limits.k);
  kernels::PanelProduct product;
  product.last_strip = kernels::n_strips(begin_ + first + n);
  product.n_tokens = n;
  product.x = levels_;
  product.x_stride_bytes = query_level_bytes(queries_.head_size);
  product.y = scores;
  product.y_stride = stride;
  for (size_t i = 0; i < n; ++i) {
    pack_query(table_, queries_, first + i, head, scaled_, levels_ + i * product.x_stride_bytes,
               limits.q);
  }
  table_.matmul_int8(keys_.panels(positions_.size()), product);
}

ScalesOfTile scales_of_tile(const kernels::Table& table, const Positions& positions,
                            const Queries& queries, size_t begin) {
  constexpr float kLeast = 1e-20f;
  Areas counted(nullptr);
  const KeyLevels none(counted, queries.head_size, 0);
  Workspace workspace(counted.bytes());
  Areas areas(workspace.get());
  KeyLevels keys(areas, queries.head_size, 0);
  keys.set_mean(table, positions);
  ScalesOfTile scales;
  scales.k = std::max(keys.largest_of(table, positions, 0, begin) / kMostLevel, kLeast);
  std::vector<float> scaled(queries.head_size);
  for (size_t head = 0; head < queries.n_group; ++head) {
    float largest = 0.0f;
    for (size_t t = 0; t < kTileTokens; ++t) {
      largest = std::max(largest, largest_of_query(table, queries, t, head, scaled.data()));
    }
    scales.q.push_back(std::max(largest / kMostLevel, kLeast));
  }
  return scales;
}

size_t choose_positions(const kernels::Table& table, std::span<const float> scores, double share,
                        uint32_t* chosen) {
  const size_t k = count_of_share(share, scores.size());
  select_largest(table, scores, k, chosen);
  return k;
}

void attend_to_chosen(const kernels::Table& table, const Positions& positions,
                      const Queries& queries, size_t token, size_t head,
                      std::span<uint32_t> chosen) {
  for (uint32_t& position : chosen) position = positions.slot(position);
  const size_t offset = token * queries.stride + head * queries.head_size;
  kernels::Attention exact;
  exact.q_stride = exact.out_stride = queries.head_size;
  exact.n_heads = 1;
  exact.head_size = static_cast<uint32_t>(queries.head_size);
  exact.k = positions.k;
  exact.v = positions.v;
  exact.scale = queries.scale;
  exact.soft_cap = queries.soft_cap;
  exact.q = queries.q + offset;
  exact.out = queries.out + offset;
  exact.prefix = chosen;
  table.attention(exact);
}

size_t QueryRoom::bytes(size_t n_positions) const {
  Areas areas(nullptr);
  QueryEstimate::count(head_size, n_positions, areas);
  const QueryAreas counted(n_positions, areas);
  return areas.bytes();
}

void attend_by_query(const kernels::Table& table, const Positions& positions,
                     const Queries& queries, size_t begin, size_t n_tokens,
                     const std::function<double(size_t head)>& share_of,
                     std::span<const ScalePair> buckets, const QueryRoom& room,
                     std::byte* workspace) {
  const size_t n_positions = positions.size();
  TROIKA_ASSERT(begin + n_tokens == n_positions && room.head_size == queries.head_size);
  Areas areas(workspace);
  QueryEstimate estimate(table, positions, queries, begin, buckets, areas);
  const QueryAreas buffers(n_positions, areas);
  for (size_t head = 0; head < queries.n_group; ++head) {
    for (size_t first = 0; first < n_tokens; first += QueryEstimate::kMostTokens) {
      const size_t n_now = std::min(QueryEstimate::kMostTokens, n_tokens - first);
      estimate.score(first, n_now, head, buffers.scores, n_positions);
      for (size_t i = 0; i < n_now; ++i) {
        const size_t n_seen = begin + first + i + 1;
        const size_t k = choose_positions(table, {buffers.scores + i * n_positions, n_seen},
                                          share_of(head), buffers.chosen);
        attend_to_chosen(table, positions, queries, first + i, head, {buffers.chosen, k});
      }
    }
  }
}

}  // namespace troika::attention
