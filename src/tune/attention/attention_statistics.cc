#include "tune/attention/attention_statistics.h"

#include <algorithm>
#include <utility>

#include "attention/choose/lists.h"
#include "attention/kept_weight.h"
#include "attention/query_attention.h"
#include "attention/tile_attention.h"

namespace troika::tune {
namespace {

using attention::kTileTokens;

constexpr size_t kTokenStride = 8;  // each such token of a tile is looked at
// Returns the mean over queries; 1, which is all of it, where there are none.
template <typename Kept, typename Of>
double mean_of(const std::vector<Kept>& queries, const Of& of) {
  if (queries.empty()) return 1.0;
  double sum = 0;
  for (const Kept& query : queries) sum += of(query);
  return sum / static_cast<double>(queries.size());
}

}  // namespace

AttentionStatistics::AttentionStatistics(const kernels::Table& table,
                                         const model::Blueprint& blueprint, size_t from,
                                         size_t tile_stride)
    : table_(table),
      n_kv_heads_(static_cast<size_t>(blueprint.n_kv_heads)),
      from_(from),
      tile_stride_(tile_stride),
      kept_(static_cast<size_t>(blueprint.n_layers) * n_kv_heads_),
      scales_(static_cast<size_t>(blueprint.n_layers) * static_cast<size_t>(blueprint.n_heads)) {}

void AttentionStatistics::observe_attention(const model::Op& op, int key_head,
                                            const attention::Positions& positions,
                                            const attention::Queries& queries, size_t n_tokens) {
  if (op.window != 0) return;
  const size_t first = positions.size() - n_tokens;
  const size_t head = static_cast<size_t>(op.layer) * n_kv_heads_ + static_cast<size_t>(key_head);
  auto& kept = kept_[head];
  for (size_t t = (kTileTokens - first % kTileTokens) % kTileTokens; t + kTileTokens <= n_tokens;
       t += kTileTokens) {
    const size_t begin = first + t;
    if (begin < from_ || begin / kTileTokens % tile_stride_ != 0) continue;
    look_at_tile(positions, queries.from(t), begin, &kept);
    look_at_scales(positions, queries.from(t), begin, head * queries.n_group);
  }
}

void AttentionStatistics::look_at_scales(const attention::Positions& positions,
                                         const attention::Queries& queries, size_t begin,
                                         size_t first_head) {
  const attention::ScalesOfTile scales =
      attention::scales_of_tile(table_, positions, queries, begin);
  for (size_t head = 0; head < queries.n_group; ++head) {
    ScaleSums& sums = scales_[first_head + head];
    sums.q += scales.q[head];
    sums.k += scales.k;
    ++sums.n;
  }
}

std::vector<float> AttentionStatistics::head_scales() const {
  // Fixed scales stand around the mean of all heads, which heads that nobody saw must not move.
  ScaleSums seen;
  for (const ScaleSums& sums : scales_) {
    if (sums.n == 0) continue;
    seen.q += sums.q / static_cast<double>(sums.n);
    seen.k += sums.k / static_cast<double>(sums.n);
    ++seen.n;
  }
  if (seen.n == 0) return std::vector<float>(2 * scales_.size(), 1.0f);
  std::vector<float> scales;
  for (const ScaleSums& sums : scales_) {
    const ScaleSums& of_head = sums.n > 0 ? sums : seen;
    scales.push_back(static_cast<float>(of_head.q / static_cast<double>(of_head.n)));
    scales.push_back(static_cast<float>(of_head.k / static_cast<double>(of_head.n)));
  }
  return scales;
}

void AttentionStatistics::look_at_tile(const attention::Positions& positions,
                                       const attention::Queries& queries, size_t begin,
                                       std::vector<Kept>* kept) const {
  const attention::EstimateRoom room = {queries.head_size, queries.n_group, 1};
  attention::Workspace workspace(room.bytes());
  std::vector<float> importance(begin + kTileTokens), values;
  attention::estimate_tiles(table_, positions, queries, begin, room, workspace.get(),
                            importance.data(), importance.size());
  const std::vector<std::vector<float>> weights =
      attention::softmax_weights(table_, positions, queries, begin, kTokenStride);
  const size_t first = kept->size();
  kept->resize(first + weights.size());
  std::vector<uint32_t> list(begin);
  for (size_t i = 0; i < kKeptShares.size(); ++i) {
    values = importance;
    list.resize(begin);
    list.resize(attention::list_of_tile(table_, kKeptShares[i], begin, values.data(), list.data()));
    for (size_t query = 0; query < weights.size(); ++query) {
      const std::vector<float>& row = weights[query];
      double sum = 0;
      for (const uint32_t p : list) sum += row[p];
      for (size_t p = begin; p < row.size(); ++p) sum += row[p];
      (*kept)[first + query].by_share[i] = static_cast<float>(sum);
    }
  }
  look_by_weight(positions, queries, begin, weights, std::span(*kept).subspan(first));
}

void AttentionStatistics::look_by_weight(const attention::Positions& positions,
                                         const attention::Queries& queries, size_t begin,
                                         const std::vector<std::vector<float>>& weights,
                                         std::span<Kept> kept) const {
  const attention::EstimateRoom room = {queries.head_size, queries.n_group, 1};
  attention::Workspace workspace(room.bytes());
  std::vector<float> marks(begin + kTileTokens);
  std::vector<uint32_t> list(begin + kTileTokens);
  for (size_t i = 0; i < kTriedAbove.size(); ++i) {
    attention::mark_tiles(table_, positions, queries, begin, kTriedAbove[i], room, workspace.get(),
                          marks.data(), marks.size());
    std::array<size_t, kTileTokens> n_seen{};
    attention::list_of_marks(begin, marks.data(), list.data(), n_seen);
    for (size_t query = 0; query < weights.size(); ++query) {
      const std::vector<float>& row = weights[query];
      const size_t n = n_seen[row.size() - 1 - begin];
      double sum = 0;
      for (size_t j = 0; j < n; ++j) sum += row[list[j]];
      kept[query].by_weight[i] = static_cast<float>(sum);
      kept[query].share_by_weight[i] = static_cast<float>(n) / static_cast<float>(row.size());
    }
  }
}

std::vector<KeptMass> AttentionStatistics::mean_kept() const {
  std::vector<KeptMass> result(kept_.size());
  for (size_t head = 0; head < kept_.size(); ++head) {
    for (size_t i = 0; i < kKeptShares.size(); ++i) {
      result[head][i] = mean_of(kept_[head], [&](const Kept& kept) { return kept.by_share[i]; });
    }
  }
  return result;
}

std::vector<std::array<KeptByWeight, kTriedAbove.size()>> AttentionStatistics::kept_by_weight()
    const {
  std::vector<std::array<KeptByWeight, kTriedAbove.size()>> result(kept_.size());
  for (size_t head = 0; head < kept_.size(); ++head) {
    for (size_t i = 0; i < kTriedAbove.size(); ++i) {
      if (kept_[head].empty()) continue;
      std::vector<float> weights;
      for (const Kept& kept : kept_[head]) weights.push_back(kept.by_weight[i]);
      const attention::KeptWeight weight = attention::kept_weight_of(std::move(weights));
      const auto share = [&](const Kept& kept) { return kept.share_by_weight[i]; };
      result[head][i] = {weight.mean, weight.worst, mean_of(kept_[head], share)};
    }
  }
  return result;
}

size_t AttentionStatistics::n_seen() const {
  size_t n = 0;
  for (const auto& kept : kept_) n += kept.size();
  return n;
}

}  // namespace troika::tune
