#include "attention/kept_weight.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attention/areas.h"
#include "attention/choose/estimate.h"
#include "attention/choose/lists.h"
#include "attention/query_attention.h"
#include "base/error.h"

namespace troika::attention {
namespace {

constexpr size_t kKeptStride = 8;  // each such token of a tile is looked at
constexpr double kWorstTenth = 0.1;
constexpr size_t kSums = 16;

// Sums up in sixteen parts, which the compiler computes at once.
float dot_in_parts(const float* a, const float* b, size_t n) {
  float sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (size_t part = 0; part < kSums; ++part) sums[part] += a[i + part] * b[i + part];
  }
  float sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const float part : sums) sum += part;
  return sum;
}

// Knows the weights of some queries of a tile, and adds up what a list of positions has of them.
class WeightsOfTile {
 public:
  WeightsOfTile(const kernels::Table& table, const Positions& positions, const Queries& queries,
                size_t begin)
      : table_(table),
        positions_(positions),
        queries_(queries),
        begin_(begin),
        weights_(softmax_weights(table, positions, queries, begin, kKeptStride)) {}

  size_t n_queries() const { return weights_.size(); }

  // Returns what each query keeps with a form.
  std::vector<float> kept_by(const KeptForm& form) const {
    switch (form.by) {
      case KeptForm::By::kWeight:
        return kept_by_weight(form.amount);
      case KeptForm::By::kQuery:
        return kept_by_queries(form.amount);
      case KeptForm::By::kTile:
      case KeptForm::By::kBlocks:
        break;
    }
    const std::vector<uint32_t> list =
        form.by == KeptForm::By::kTile ? list_by_share(form.amount) : list_by_blocks(form.amount);
    std::vector<float> kept;
    for (const std::vector<float>& weights : weights_) {
      kept.push_back(
          sum_over(weights, list) +
          std::accumulate(weights.begin() + static_cast<ptrdiff_t>(begin_), weights.end(), 0.0f));
    }
    return kept;
  }

 private:
  static float sum_over(const std::vector<float>& weights, std::span<const uint32_t> list) {
    double sum = 0;
    for (const uint32_t position : list) sum += weights[position];
    return static_cast<float>(sum);
  }
  EstimateRoom room() const { return {queries_.head_size, queries_.n_group, 1}; }

  std::vector<uint32_t> list_by_share(double share) const {
    Workspace workspace(room().bytes());
    std::vector<float> importance(begin_ + kTileTokens);
    estimate_tiles(table_, positions_, queries_, begin_, room(), workspace.get(), importance.data(),
                   importance.size());
    std::vector<uint32_t> list(begin_);
    list.resize(list_of_tile(table_, share, begin_, importance.data(), list.data()));
    return list;
  }

  std::vector<uint32_t> list_by_blocks(double share) const {
    std::vector<uint32_t> list(begin_);
    list.resize(list_of_blocks(table_, positions_, queries_, begin_, share, list.data()));
    return list;
  }

  std::vector<float> kept_by_weight(double above) const {
    Workspace workspace(room().bytes());
    std::vector<float> marks(begin_ + kTileTokens);
    mark_tiles(table_, positions_, queries_, begin_, above, room(), workspace.get(), marks.data(),
               marks.size());
    std::vector<uint32_t> list(begin_ + kTileTokens);
    std::array<size_t, kTileTokens> n_seen{};
    list_of_marks(begin_, marks.data(), list.data(), n_seen);
    std::vector<float> kept;
    for (const std::vector<float>& weights : weights_) {
      kept.push_back(sum_over(weights, {list.data(), n_seen[weights.size() - 1 - begin_]}));
    }
    return kept;
  }

  std::vector<float> kept_by_queries(double share) const {
    Areas count(nullptr);
    QueryEstimate::count(queries_.head_size, positions_.size(), count);
    Workspace workspace(count.bytes());
    Areas areas(workspace.get());
    QueryEstimate estimate(table_, positions_, queries_, begin_, {}, areas);
    std::vector<float> scores(begin_ + kTileTokens), kept;
    std::vector<uint32_t> chosen(scores.size());
    for (size_t i = 0; i < weights_.size(); ++i) {
      const size_t n_seen = weights_[i].size();
      estimate.score(n_seen - 1 - begin_, 1, i % queries_.n_group, scores.data(), scores.size());
      const size_t n = choose_positions(table_, {scores.data(), n_seen}, share, chosen.data());
      kept.push_back(sum_over(weights_[i], {chosen.data(), n}));
    }
    return kept;
  }

  const kernels::Table& table_;
  const Positions& positions_;
  const Queries& queries_;
  size_t begin_;
  std::vector<std::vector<float>> weights_;
};

}  // namespace

std::vector<std::vector<float>> softmax_weights(const kernels::Table& table,
                                                const Positions& positions, const Queries& queries,
                                                size_t begin, size_t token_stride) {
  const size_t head_size = queries.head_size;
  std::vector<std::vector<float>> weights;
  std::vector<const float*> q;
  for (size_t t = token_stride - 1; t < kTileTokens; t += token_stride) {
    for (size_t h = 0; h < queries.n_group; ++h) {
      q.push_back(queries.q + t * queries.stride + h * head_size);
      weights.emplace_back(begin + t + 1);
    }
  }
  std::vector<float> key(head_size);
  for (size_t p = 0; p < begin + kTileTokens; ++p) {
    table.load_kv(positions.k.type, positions.key(p), key.data(), head_size);
    for (size_t i = 0; i < q.size(); ++i) {
      if (p >= weights[i].size()) continue;
      weights[i][p] = queries.scale * dot_in_parts(q[i], key.data(), head_size);
    }
  }
  for (std::vector<float>& row : weights) {
    if (queries.soft_cap > 0.0f) {
      table.soft_cap(row.data(), queries.soft_cap, row.data(), row.size());
    }
    const float largest = *std::max_element(row.begin(), row.end());
    double total = 0;
    for (float& weight : row) total += weight = std::exp(weight - largest);
    for (float& weight : row) weight = static_cast<float>(weight / total);
  }
  return weights;
}

KeptWeight kept_weight_of(std::vector<float> queries) {
  TROIKA_ASSERT(!queries.empty());
  const auto mean_of_first = [&](size_t n) {
    return std::accumulate(queries.begin(), queries.begin() + static_cast<ptrdiff_t>(n), 0.0) /
           static_cast<double>(n);
  };
  std::sort(queries.begin(), queries.end());
  const double worst = std::ceil(kWorstTenth * static_cast<double>(queries.size()));
  return {mean_of_first(queries.size()), mean_of_first(static_cast<size_t>(worst))};
}

std::vector<std::array<float, kKeptForms.size()>> kept_by_forms(const kernels::Table& table,
                                                                const Positions& positions,
                                                                const Queries& queries,
                                                                size_t begin) {
  const WeightsOfTile tile(table, positions, queries, begin);
  std::vector<std::array<float, kKeptForms.size()>> result(tile.n_queries());
  for (size_t form = 0; form < kKeptForms.size(); ++form) {
    const std::vector<float> kept = tile.kept_by(kKeptForms[form]);
    for (size_t query = 0; query < kept.size(); ++query) result[query][form] = kept[query];
  }
  return result;
}

}  // namespace troika::attention
