#include "attention/estimate_recall.h"

#include <algorithm>
#include <cmath>

#include "attention/areas.h"
#include "attention/choose/estimate.h"
#include "attention/choose/key_levels.h"
#include "attention/choose/select.h"
#include "attention/query_attention.h"
#include "base/error.h"

namespace troika::attention {
namespace {

constexpr size_t kTokenStride = 16;  // looks at the last of each 16 tokens of a tile

float largest_magnitude(std::span<const float> values) {
  float largest = 0.0f;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

size_t n_beyond(std::span<const float> values, float limit) {
  // A value that rounds to the last level is not clipped.
  const float most = limit * (kMostLevel + 0.5f) / kMostLevel;
  return static_cast<size_t>(
      std::count_if(values.begin(), values.end(), [&](float v) { return std::abs(v) > most; }));
}

class TileRecall {
 public:
  TileRecall(const kernels::Table& table, const Positions& positions, const Queries& queries,
             size_t begin)
      : table_(table),
        positions_(positions),
        queries_(queries),
        begin_(begin),
        n_(begin + kTileTokens),
        d_(queries.head_size),
        room_(bytes_of(d_, n_)),
        areas_(room_.get()),
        levels_(areas_, d_, n_) {
    TROIKA_ASSERT(begin % kTileTokens == 0 && n_ <= positions.size());
    query_levels_ = areas_.take<std::byte>(query_level_bytes(d_));
    scaled_.resize(kTileTokens * queries.n_group * d_);
    for (size_t t = 0; t < kTileTokens; ++t) {
      for (size_t h = 0; h < queries.n_group; ++h) {
        table.scale(queries.q + t * queries.stride + h * d_, queries.scale, scaled_of(t, h), d_);
      }
    }
    load_keys();
    find_best();
  }

  void add(const EstimateWay& way, EstimateRecall* recall) {
    way.takes_mean ? levels_.set_mean(table_, positions_) : levels_.clear_mean();
    const std::vector<float>& keys = way.takes_mean ? centred_ : keys_;
    const size_t n_measured = way.buckets.empty() ? n_ : begin_;
    const float largest_key = largest_magnitude({keys.data(), n_measured * d_});
    float packed = -1.0f;
    for (size_t h = 0; h < queries_.n_group; ++h) {
      ScalePair limits = {0.0f, 0.0f};
      if (!way.has_own_scales) limits = limits_of(way, h, largest_key);
      if (limits.k != packed) pack(limits.k);
      packed = limits.k;
      if (limits.k > 0.0f) {
        recall->n_key_values += keys.size();
        recall->n_clipped_of_keys += n_beyond(keys, limits.k);
      }
      for (size_t t = 0; t < kTileTokens && limits.q > 0.0f; ++t) {
        recall->n_query_values += d_;
        recall->n_clipped_of_queries += n_beyond({scaled_of(t, h), d_}, limits.q);
      }
      for (size_t t = kTokenStride - 1; t < kTileTokens; t += kTokenStride) {
        compare(t, h, limits.q, recall);
      }
    }
  }

 private:
  static size_t bytes_of(size_t head_size, size_t n) {
    Areas areas(nullptr);
    const KeyLevels levels(areas, head_size, n);
    areas.take<std::byte>(query_level_bytes(head_size));
    return areas.bytes();
  }
  float* scaled_of(size_t token, size_t head) {
    return scaled_.data() + (token * queries_.n_group + head) * d_;
  }

  // Loads the keys as they are, and without the mean that KeyLevels subtracts.
  void load_keys() {
    keys_.resize(n_ * d_);
    centred_.resize(n_ * d_);
    levels_.set_mean(table_, positions_);
    for (size_t p = 0; p < n_; ++p) {
      float* const key = keys_.data() + p * d_;
      table_.load_kv(positions_.k.type, positions_.key(p), key, d_);
      table_.add(key, levels_.minus_mean(), centred_.data() + p * d_, d_);
    }
  }

  // Finds for each share the best positions of each query that is looked at.
  void find_best() {
    std::vector<float> scores(n_);
    std::vector<uint32_t> chosen(n_);
    for (size_t t = kTokenStride - 1; t < kTileTokens; t += kTokenStride) {
      for (size_t h = 0; h < queries_.n_group; ++h) {
        const size_t n_seen = begin_ + t + 1;
        const float* const q = scaled_of(t, h);
        for (size_t p = 0; p < n_seen; ++p) {
          const float* const key = keys_.data() + p * d_;
          float sum = 0.0f;
          for (size_t i = 0; i < d_; ++i) sum += q[i] * key[i];
          scores[p] = sum;
        }
        for (const double share : kRecallShares) {
          const size_t k = choose_positions(table_, {scores.data(), n_seen}, share, chosen.data());
          std::vector<bool>& best = best_.emplace_back(n_seen);
          for (size_t i = 0; i < k; ++i) best[chosen[i]] = true;
        }
      }
    }
  }

  ScalePair limits_of(const EstimateWay& way, size_t head, float largest_key) {
    float largest = 0.0f;
    for (size_t t = 0; t < kTileTokens; ++t) {
      largest = std::max(largest, largest_magnitude({scaled_of(t, head), d_}));
    }
    if (way.buckets.empty()) return {largest, largest_key};
    const ScalePair& bucket =
        way.buckets[nearest_bucket(way.buckets, {largest / kMostLevel, largest_key / kMostLevel})];
    return {bucket.q * kMostLevel, bucket.k * kMostLevel};
  }

  void pack(float limit) {
    levels_.set_limit(limit);
    levels_.pack(table_, positions_, 0, n_, [](size_t i) { return i; });
  }

  void compare(size_t token, size_t head, float limit, EstimateRecall* recall) {
    std::vector<float> scores(n_);
    std::vector<float> scaled(d_);
    std::vector<uint32_t> chosen(n_);
    pack_query(table_, queries_, token, head, scaled.data(), query_levels_, limit);
    kernels::PanelProduct product;
    product.last_strip = kernels::n_strips(n_);
    product.n_tokens = 1;
    product.x = query_levels_;
    product.x_stride_bytes = query_level_bytes(d_);
    product.y = scores.data();
    product.y_stride = n_;
    table_.matmul_int8(levels_.panels(n_), product);
    const size_t n_seen = begin_ + token + 1;
    const size_t query = token / kTokenStride * queries_.n_group + head;
    for (size_t i = 0; i < kRecallShares.size(); ++i) {
      const size_t k =
          choose_positions(table_, {scores.data(), n_seen}, kRecallShares[i], chosen.data());
      const std::vector<bool>& best = best_[query * kRecallShares.size() + i];
      const auto n_found = std::count_if(chosen.begin(), chosen.begin() + static_cast<ptrdiff_t>(k),
                                         [&](uint32_t position) { return best[position]; });
      recall->recall[i] += static_cast<double>(n_found) / static_cast<double>(k);
    }
    ++recall->n_queries;
  }

  const kernels::Table& table_;
  const Positions& positions_;
  const Queries& queries_;
  size_t begin_;
  size_t n_;  // counts positions
  size_t d_;
  Workspace room_;
  Areas areas_;
  KeyLevels levels_;
  std::byte* query_levels_;
  std::vector<float> scaled_;            // (kTileTokens, n_group, d)
  std::vector<float> keys_;              // (n, d)
  std::vector<float> centred_;           // like `keys_`
  std::vector<std::vector<bool>> best_;  // (queries that are looked at, shares, positions)
};

}  // namespace

void EstimateRecall::add(const EstimateRecall& other) {
  n_queries += other.n_queries;
  for (size_t i = 0; i < recall.size(); ++i) recall[i] += other.recall[i];
  n_query_values += other.n_query_values;
  n_clipped_of_queries += other.n_clipped_of_queries;
  n_key_values += other.n_key_values;
  n_clipped_of_keys += other.n_clipped_of_keys;
}

void add_recall(const kernels::Table& table, const Positions& positions, const Queries& queries,
                size_t begin, std::span<const EstimateWay> ways,
                std::span<EstimateRecall> recalls) {
  TileRecall tile(table, positions, queries, begin);
  for (size_t i = 0; i < ways.size(); ++i) tile.add(ways[i], &recalls[i]);
}

}  // namespace troika::attention
