#include "measure/estimate_quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "attention/choose/estimate.h"
#include "attention/query_attention.h"
#include "attention/seen_by_weight.h"
#include "base/median.h"

namespace troika::measure {

EstimateQuality::EstimateQuality(const kernels::Table& table,
                                 const plan::PromptAttention& attention, int n_heads,
                                 size_t tile_stride)
    : table_(table),
      attention_(attention),
      n_heads_(static_cast<size_t>(n_heads)),
      first_position_(
          static_cast<size_t>(std::max(attention.from, plan::PromptAttention::kLeastFrom))),
      tile_stride_(tile_stride) {
  const auto add = [&](std::string name, attention::EstimateWay way) {
    names_.push_back(std::move(name));
    ways_.push_back(std::move(way));
  };
  add("a scale for each query and position", {});
  add("one scale for a head's queries and keys", {.takes_mean = true, .has_own_scales = false});
  add("one scale a head, keys keep their mean", {.takes_mean = false, .has_own_scales = false});
  for (const int n : {1, 5, 9}) {
    if (!has_scales()) break;
    attention_.n_buckets = n;
    add(fmt::format("{} fixed {}", n, n == 1 ? "pair of scales" : "pairs of scales"),
        {.takes_mean = true,
         .has_own_scales = false,
         .buckets = plan::scale_buckets_of(attention_)});
  }
  sums_.resize(ways_.size());
}

// Limits the queries of a head whose kept weight is looked at. Of so many the worst tenth is known
// well, and a model of a thousand heads takes 150 MB for them.
constexpr size_t kMostKept = 4096;

void EstimateQuality::observe_attention(const model::Op& op, int key_head,
                                        const attention::Positions& positions,
                                        const attention::Queries& queries, size_t n_tokens) {
  constexpr size_t kTile = attention::kTileTokens;
  if (op.window != 0) return;
  const size_t first = positions.size() - n_tokens;
  for (size_t t = (kTile - first % kTile) % kTile; t + kTile <= n_tokens; t += kTile) {
    const size_t begin = first + t;
    if (begin < first_position_ || begin / kTile % tile_stride_ != 0) continue;
    std::vector<attention::EstimateRecall> found(ways_.size());
    attention::add_recall(table_, positions, queries.from(t), begin, ways_, found);
    attention::ScalesOfTile scales;
    if (has_scales()) {
      scales = attention::scales_of_tile(table_, positions, queries.from(t), begin);
    }
    std::array<std::array<size_t, kTile>, kAbove.size()> n_seen;
    for (size_t i = 0; i < kAbove.size(); ++i) {
      n_seen[i] = attention::seen_by_weight(table_, positions, queries.from(t), begin, kAbove[i]);
    }
    std::array<size_t, kTile> n_all;
    std::iota(n_all.begin(), n_all.end(), begin + 1);
    const auto kept = attention::kept_by_forms(table_, positions, queries.from(t), begin);
    const std::lock_guard lock(mutex_);
    auto& of_head = kept_[{op.layer, key_head}];
    if (of_head.size() < kMostKept) of_head.insert(of_head.end(), kept.begin(), kept.end());
    for (size_t i = 0; i < kAbove.size(); ++i) add_counts(n_seen[i], &seen_[i]);
    add_counts(n_all, &all_);
    for (size_t way = 0; way < found.size(); ++way) sums_[way].add(found[way]);
    if (!has_scales()) continue;
    for (size_t h = 0; h < queries.n_group; ++h) {
      const size_t head = static_cast<size_t>(op.layer) * n_heads_ +
                          static_cast<size_t>(key_head) * queries.n_group + h;
      const attention::ScalePair calibrated = plan::scales_of(attention_, head);
      ratios_q_.push_back(scales.q[h] / calibrated.q);
      ratios_k_.push_back(scales.k / calibrated.k);
    }
  }
}

void EstimateQuality::add_counts(const std::array<size_t, attention::kTileTokens>& n_seen,
                                 Counts* counts) {
  (*counts)[0] += static_cast<double>(n_seen.front());
  for (const size_t n : n_seen) (*counts)[1] += static_cast<double>(n);
  (*counts)[2] += static_cast<double>(n_seen.back());
}

std::vector<SeenByWeight> EstimateQuality::seen_by_weight() const {
  std::vector<SeenByWeight> result;
  for (size_t i = 0; i < kAbove.size() && all_[0] > 0; ++i) {
    result.push_back(
        {kAbove[i], seen_[i][0] / all_[0], seen_[i][1] / all_[1], seen_[i][2] / all_[2]});
  }
  return result;
}

std::vector<KeptByForm> EstimateQuality::kept_by_form() const {
  constexpr double kHalf = 0.5;
  std::vector<KeptByForm> result;
  for (size_t form = 0; form < attention::kKeptForms.size() && !kept_.empty(); ++form) {
    KeptByForm& of_form =
        result.emplace_back(KeptByForm{attention::kKeptForms[form].name, {0.0, 0.0}, 0});
    for (const auto& [head, queries] : kept_) {
      std::vector<float> kept;
      for (const auto& query : queries) kept.push_back(query[form]);
      const attention::KeptWeight weight = attention::kept_weight_of(std::move(kept));
      of_form.weight.mean += weight.mean / static_cast<double>(kept_.size());
      of_form.weight.worst += weight.worst / static_cast<double>(kept_.size());
      of_form.n_diffuse += weight.worst < kHalf ? 1 : 0;
    }
  }
  return result;
}

std::vector<QualityOfWay> EstimateQuality::ways() const {
  std::vector<QualityOfWay> result;
  for (size_t i = 0; i < ways_.size(); ++i) result.push_back({names_[i], sums_[i]});
  return result;
}

ScaleSpread EstimateQuality::spread_of(const std::vector<double>& ratios) {
  return {percentile(ratios, 0.1), median(ratios), percentile(ratios, 0.9)};
}

}  // namespace troika::measure
