#include "tune/attention_statistics.h"

#include <algorithm>
#include <cmath>

#include "attention/tile_attention.h"

namespace troika::tune {
namespace {

using attention::kTileTokens;

constexpr size_t kTokenStep = 8;  // of a tile, each such token is looked at
constexpr double kWorstShare = 0.1;
constexpr size_t kLanes = 16;

// The compiler computes sixteen sums at once.
float dot(const float* a, const float* b, size_t n) {
  float sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const float lane : sums) sum += lane;
  return sum;
}

// Workspace at a multiple of 64 bytes.
class Workspace {
 public:
  explicit Workspace(size_t bytes) : bytes_(bytes + kernels::kLineBytes) {}
  std::byte* get() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (kernels::kLineBytes - address % kernels::kLineBytes);
  }

 private:
  std::vector<std::byte> bytes_;
};

// (queries, positions): the weights of each query's softmax, those of a token's query heads one
// behind the other.
std::vector<std::vector<float>> weights_of(const kernels::Table& table,
                                           const attention::Positions& positions,
                                           const attention::Queries& queries, size_t begin) {
  const size_t head_size = queries.head_size;
  std::vector<std::vector<float>> weights;
  std::vector<const float*> q;
  for (size_t t = kTokenStep - 1; t < kTileTokens; t += kTokenStep) {
    for (size_t h = 0; h < queries.n_group; ++h) {
      q.push_back(queries.q + t * queries.stride + h * head_size);
      weights.emplace_back(begin + t + 1);
    }
  }
  std::vector<float> key(head_size);
  for (size_t p = 0; p < begin + kTileTokens; ++p) {
    table.load_kv(positions.k.type, positions.key(p), key.data(), head_size);
    for (size_t i = 0; i < q.size(); ++i) {
      if (p < weights[i].size()) weights[i][p] = queries.scale * dot(q[i], key.data(), head_size);
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

}  // namespace

AttentionStatistics::AttentionStatistics(const kernels::Table& table,
                                         const model::Blueprint& blueprint, size_t from,
                                         size_t tile_step)
    : table_(table),
      n_kv_heads_(static_cast<size_t>(blueprint.n_kv_heads)),
      from_(from),
      tile_step_(tile_step),
      kept_(static_cast<size_t>(blueprint.n_layers) * n_kv_heads_) {}

void AttentionStatistics::observe_attention(const model::Op& op, int key_head,
                                            const attention::Positions& positions,
                                            const attention::Queries& queries, size_t n_tokens) {
  if (op.window != 0) return;
  const size_t first = positions.size() - n_tokens;
  auto& kept = kept_[static_cast<size_t>(op.layer) * n_kv_heads_ + static_cast<size_t>(key_head)];
  for (size_t t = (kTileTokens - first % kTileTokens) % kTileTokens; t + kTileTokens <= n_tokens;
       t += kTileTokens) {
    const size_t begin = first + t;
    if (begin < from_ || begin / kTileTokens % tile_step_ != 0) continue;
    look_at_tile(positions, queries.from(t), begin, &kept);
  }
}

void AttentionStatistics::look_at_tile(const attention::Positions& positions,
                                       const attention::Queries& queries, size_t begin,
                                       std::vector<std::array<float, kKeptShares.size()>>* kept) {
  const attention::EstimateRoom room = {queries.head_size, queries.n_group, 1};
  Workspace workspace(room.bytes());
  std::vector<float> importance(begin + kTileTokens), values;
  attention::estimate_tiles(table_, positions, queries, begin, room, workspace.get(),
                            importance.data(), importance.size());
  const std::vector<std::vector<float>> weights = weights_of(table_, positions, queries, begin);
  const size_t first = kept->size();
  kept->resize(first + weights.size());
  std::vector<uint32_t> list(begin);
  for (size_t i = 0; i < kKeptShares.size(); ++i) {
    values = importance;
    list.resize(begin);
    list.resize(attention::list_of_tile(kKeptShares[i], begin, values.data(), list.data()));
    for (size_t query = 0; query < weights.size(); ++query) {
      const std::vector<float>& row = weights[query];
      double sum = 0;
      for (const uint32_t p : list) sum += row[p];
      for (size_t p = begin; p < row.size(); ++p) sum += row[p];
      (*kept)[first + query][i] = static_cast<float>(sum);
    }
  }
}

std::vector<KeptMass> AttentionStatistics::mean_kept() const {
  std::vector<KeptMass> result(kept_.size());
  for (size_t head = 0; head < kept_.size(); ++head) {
    result[head].fill(kept_[head].empty() ? 1.0 : 0.0);
    for (const auto& query : kept_[head]) {
      for (size_t i = 0; i < query.size(); ++i) {
        result[head][i] += query[i] / static_cast<double>(kept_[head].size());
      }
    }
  }
  return result;
}

std::vector<KeptMass> AttentionStatistics::worst_kept() const {
  std::vector<KeptMass> result(kept_.size());
  for (size_t head = 0; head < kept_.size(); ++head) {
    result[head].fill(1.0);
    const size_t n = kept_[head].size();
    const auto n_worst = static_cast<size_t>(std::ceil(kWorstShare * static_cast<double>(n)));
    std::vector<float> values(n);
    for (size_t i = 0; i < kKeptShares.size() && n > 0; ++i) {
      for (size_t query = 0; query < n; ++query) values[query] = kept_[head][query][i];
      std::sort(values.begin(), values.end());
      double sum = 0;
      for (size_t j = 0; j < n_worst; ++j) sum += values[j];
      result[head][i] = sum / static_cast<double>(n_worst);
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
