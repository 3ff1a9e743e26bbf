#include "attention/choose/estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/areas.h"
#include "attention/choose/key_levels.h"
#include "base/error.h"

namespace troika::attention {
namespace {

using kernels::kPromptBlock;

// Counts the queries that are scored together: few enough that their scores stay in the first-level
// cache until they are used.
constexpr size_t kQueriesAtOnce = 48;
constexpr size_t kMostQueries = 1024;
constexpr size_t kMostTiles = 8;
// Counts the queries of each head in a tile that are estimated: those of every kQueryStride-th
// token.
constexpr size_t kQueriesOfHead = kTileTokens / kQueryStride;

// The sums of a query's weights: of those that are added up, and of those that stand for others.
struct Sums {
  kernels::OnlineSoftmax summed, sampled;

  // Returns the logarithm of the sum of e^score.
  float log_sum() const {
    // The samples' total is relative to their largest weight, which counts once.
    const double rest = sampled.total > 0 ? kSampleStride * (double{sampled.total} - 1) + 1 : 0;
    const double largest = std::max(summed.largest, sampled.largest);
    const double total = double{summed.total} * std::exp(summed.largest - largest) +
                         (rest > 0 ? rest * std::exp(sampled.largest - largest) : 0);
    return static_cast<float>(largest + std::log(total));
  }
};

struct EstimateAreas {
  KeyLevels keys;      // (kPromptBlock)
  std::byte* queries;  // (n_queries, query_level_bytes)
  float* scaled;       // (head_size)
  float* scores;       // (kQueriesAtOnce, kPromptBlock)
  Sums* sums;          // (n_queries)
  float* log_sums;     // (n_queries)
  float* of_mean;      // (n_queries): what the keys' mean adds to a query's scores

  EstimateAreas(const EstimateRoom& room, Areas& areas)
      : keys(areas, room.head_size, kPromptBlock) {
    const size_t n_queries = room.n_tiles * kQueriesOfHead * room.n_group;
    queries = areas.take<std::byte>(n_queries * query_level_bytes(room.head_size));
    scaled = areas.take<float>(room.head_size);
    scores = areas.take<float>(kQueriesAtOnce * kPromptBlock);
    sums = areas.take<Sums>(n_queries);
    log_sums = areas.take<float>(n_queries);
    of_mean = areas.take<float>(n_queries);
  }
};

class Estimate {
 public:
  Estimate(const kernels::Table& table, const Positions& positions, const Queries& queries,
           size_t begin, size_t first_token, const EstimateRoom& room, Areas& areas)
      : table_(table),
        positions_(positions),
        queries_(queries),
        begin_(begin),
        first_token_(first_token),
        n_tiles_(room.n_tiles),
        n_queries_(kQueriesOfHead * queries.n_group),
        buffers_(room, areas) {
    TROIKA_ASSERT(begin % kTileTokens == 0 && begin >= kLeastPositions &&
                  begin + n_tiles_ * kTileTokens <= positions.size());
  }

  // Returns the first position, among those that are chosen from, whose key is infinite or no
  // number.
  size_t raise(float* importance, size_t stride) {
    sum_up();
    for (size_t tile = 0; tile < n_tiles_; ++tile) {
      std::fill(importance + tile * stride, importance + tile * stride + local_of(tile),
                -std::numeric_limits<float>::infinity());
    }
    score_all([&](size_t tile, size_t first, size_t n, size_t query, size_t n_now) {
      table_.raise_largest(buffers_.scores, kPromptBlock,
                           buffers_.log_sums + tile * n_queries_ + query, n_now, n,
                           importance + tile * stride + first);
    });
    return buffers_.keys.first_odd();
  }

  size_t mark(double above, float* marks, size_t stride) {
    sum_up();
    for (size_t tile = 0; tile < n_tiles_; ++tile) {
      std::fill(marks + tile * stride, marks + tile * stride + local_of(tile), kNeverSeen);
      const auto begin = static_cast<double>(begin_ + tile * kTileTokens);
      const auto least = static_cast<float>(std::log(above / begin));
      for (size_t i = 0; i < n_queries_; ++i) buffers_.log_sums[tile * n_queries_ + i] += least;
    }
    float tokens[kQueriesAtOnce];
    score_all([&](size_t tile, size_t first, size_t n, size_t query, size_t n_now) {
      for (size_t i = 0; i < n_now; ++i) {
        tokens[i] = static_cast<float>(token_of((query + i) / queries_.n_group));
      }
      table_.mark_first(buffers_.scores, kPromptBlock,
                        buffers_.log_sums + tile * n_queries_ + query, tokens, n_now, n,
                        marks + tile * stride + first);
    });
    return buffers_.keys.first_odd();
  }

 private:
  // Returns the first position that a tile keeps in any case because it is close by.
  size_t local_of(size_t tile) const { return begin_ + tile * kTileTokens - kLocal; }
  size_t token_of(size_t index) const { return index * kQueryStride + first_token_; }

  // Finds the sum of each query's weights.
  void sum_up() {
    buffers_.keys.set_mean(table_, positions_);
    prepare_queries();
    sum_first();
    sum_samples();
    for (size_t tile = 0; tile < n_tiles_; ++tile) sum_local(tile);
    for (size_t i = 0; i < n_tiles_ * n_queries_; ++i) {
      buffers_.log_sums[i] = buffers_.sums[i].log_sum();
    }
  }

  void prepare_queries() {
    std::byte* levels = buffers_.queries;
    float* of_mean = buffers_.of_mean;
    for (size_t i = 0; i < n_tiles_ * kQueriesOfHead; ++i) {
      for (size_t h = 0; h < queries_.n_group; ++h) {
        pack_query(table_, queries_, token_of(i), h, buffers_.scaled, levels);
        levels += query_level_bytes(queries_.head_size);
        if (queries_.soft_cap > 0.0f) *of_mean++ = buffers_.keys.of_mean(buffers_.scaled);
      }
    }
    std::fill_n(buffers_.sums, n_tiles_ * n_queries_, Sums());
  }

  // Scores a tile's queries against the n current keys, some queries at a time, the last ones
  // first: calls take(first query of the tile, how many, scores).
  template <typename Take>
  void score(size_t tile, size_t n, const Take& take) {
    const size_t n_times = (n_queries_ + kQueriesAtOnce - 1) / kQueriesAtOnce;
    for (size_t time = n_times; time-- > 0;) {
      const size_t first = time * kQueriesAtOnce;
      const size_t n_now = std::min(kQueriesAtOnce, n_queries_ - first);
      kernels::PanelProduct product;
      product.last_strip = kernels::n_strips(n);
      product.n_tokens = n_now;
      product.x_stride_bytes = query_level_bytes(queries_.head_size);
      product.x = buffers_.queries + (tile * n_queries_ + first) * product.x_stride_bytes;
      product.y = buffers_.scores;
      product.y_stride = kPromptBlock;
      table_.matmul_int8(buffers_.keys.panels(n), product);
      for (size_t i = 0; queries_.soft_cap > 0.0f && i < n_now; ++i) {
        float* const scores = buffers_.scores + i * kPromptBlock;
        const float of_mean = buffers_.of_mean[tile * n_queries_ + first + i];
        for (size_t p = 0; p < n; ++p) scores[p] += of_mean;
        table_.soft_cap(scores, queries_.soft_cap, scores, n);
      }
      take(first, n_now, buffers_.scores);
    }
  }

  // Adds the weights of the current keys to the sums of a tile's queries; n_of(query) says how many
  // of these keys the query sees.
  template <typename NOf>
  void add(size_t tile, size_t n, kernels::OnlineSoftmax Sums::*into, const NOf& n_of) {
    uint16_t weights[kPromptBlock];
    score(tile, n, [&](size_t first, size_t n_now, const float* scores) {
      for (size_t i = 0; i < n_now; ++i) {
        Sums& sums = buffers_.sums[tile * n_queries_ + first + i];
        table_.weigh_scores(scores + i * kPromptBlock, n_of(first + i), &(sums.*into), weights);
      }
    });
  }

  void sum_first() {
    buffers_.keys.pack(table_, positions_, 0, kFirst, [](size_t i) { return i; });
    for (size_t tile = 0; tile < n_tiles_; ++tile) {
      add(tile, kFirst, &Sums::summed, [](size_t) { return kFirst; });
    }
  }

  // Sums positions kSampleStride, 2 kSampleStride, ... up to those close by.
  void sum_samples() {
    const auto n_before = [&](size_t tile) { return (local_of(tile) - 1) / kSampleStride; };
    const size_t n_all = n_before(n_tiles_ - 1);
    for (size_t first = 0; first < n_all; first += kPromptBlock) {
      const size_t n_packed = std::min(kPromptBlock, n_all - first);
      buffers_.keys.pack(table_, positions_, 0, n_packed,
                         [&](size_t i) { return (first + i + 1) * kSampleStride; });
      for (size_t tile = 0; tile < n_tiles_; ++tile) {
        if (n_before(tile) <= first) continue;
        const size_t n = std::min(n_packed, n_before(tile) - first);
        add(tile, n, &Sums::sampled, [&](size_t) { return n; });
      }
    }
  }

  // Sums the positions close by, and those of the tile itself up to the query's own.
  void sum_local(size_t tile) {
    const size_t first = local_of(tile);
    buffers_.keys.pack(table_, positions_, 0, kLocal + kTileTokens,
                       [&](size_t i) { return first + i; });
    add(tile, kLocal + kTileTokens, &Sums::summed,
        [&](size_t query) { return kLocal + token_of(query / queries_.n_group) + 1; });
  }

  // Scores every tile against the positions among which it chooses: calls take(tile, first
  // position, how many, first query, how many).
  template <typename Take>
  void score_all(const Take& take) {
    const size_t n_all = local_of(n_tiles_ - 1);
    for (size_t first = 0; first < n_all; first += kPromptBlock) {
      const size_t n_packed = std::min(kPromptBlock, n_all - first);
      buffers_.keys.pack(table_, positions_, 0, n_packed, [&](size_t i) { return first + i; });
      for (size_t tile = 0; tile < n_tiles_; ++tile) {
        if (local_of(tile) <= first) continue;
        const size_t n = std::min(n_packed, local_of(tile) - first);
        score(tile, n, [&](size_t query, size_t n_now, const float*) {
          take(tile, first, n, query, n_now);
        });
      }
    }
  }

  const kernels::Table& table_;
  const Positions& positions_;
  const Queries& queries_;
  size_t begin_;
  size_t first_token_;  // the first token of a tile that is estimated
  size_t n_tiles_;
  size_t n_queries_;  // counts the queries of a tile
  EstimateAreas buffers_;
};

static_assert(kLocal + kTileTokens <= kPromptBlock && kFirst <= kPromptBlock);
static_assert(kLeastPositions >= kMeanEnd && kLeastPositions > kLocal + kSampleStride);

}  // namespace

size_t EstimateRoom::bytes() const {
  Areas areas(nullptr);
  const EstimateAreas counted(*this, areas);
  return areas.bytes();
}

size_t tiles_together(size_t n_group) {
  return std::clamp<size_t>(kMostQueries / (kQueriesOfHead * n_group), 1, kMostTiles);
}

size_t estimate_tiles(const kernels::Table& table, const Positions& positions,
                      const Queries& queries, size_t begin, const EstimateRoom& room,
                      std::byte* workspace, float* importance, size_t stride) {
  // Every second token is estimated, from the second one on: so each may choose for the token
  // before it.
  Areas areas(workspace);
  return Estimate(table, positions, queries, begin, kQueryStride - 1, room, areas)
      .raise(importance, stride);
}

size_t mark_tiles(const kernels::Table& table, const Positions& positions, const Queries& queries,
                  size_t begin, double above, const EstimateRoom& room, std::byte* workspace,
                  float* marks, size_t stride) {
  Areas areas(workspace);
  return Estimate(table, positions, queries, begin, 0, room, areas).mark(above, marks, stride);
}

}  // namespace troika::attention
