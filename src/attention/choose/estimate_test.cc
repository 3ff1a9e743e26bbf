#include "attention/choose/estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "attention/attention_test_support.h"
#include "attention/choose/key_levels.h"

namespace troika::attention {
namespace {

constexpr size_t kTextBefore = 768;

// Returns a row in plain levels times a scale: the largest magnitude has the level 127.
std::vector<double> rounded(const std::vector<float>& row) {
  float largest = 0;
  for (const float value : row) largest = std::max(largest, std::abs(value));
  const float factor = largest > 0 ? 127.0f / largest : 0.0f;
  std::vector<double> result;
  result.reserve(row.size());
  for (const float value : row) {
    result.push_back(std::nearbyint(value * factor) * (double{largest} / 127.0));
  }
  return result;
}

// Computes plainly what the header of the estimate promises.
class PlainEstimate {
 public:
  PlainEstimate(const TestHead& head, size_t begin) : head_(head), begin_(begin) {
    mean_.resize(head.head_size);
    for (size_t p = 8; p < 512; p += 8) {
      for (size_t i = 0; i < head.head_size; ++i)
        mean_[i] += head.keys[p * head.head_size + i] / 63;
    }
    for (size_t p = 0; p < head.n; ++p) {
      std::vector<float> key(head.head_size);
      for (size_t i = 0; i < head.head_size; ++i) {
        key[i] = head.keys[p * head.head_size + i] - static_cast<float>(mean_[i]);
      }
      keys_.push_back(rounded(key));
    }
  }

  // Returns the importance of the positions before the close ones. Every second token of a tile
  // counts, with each of its heads.
  std::vector<double> importance(size_t tile) const {
    std::vector<double> largest(begin_ + tile * 64 - 64, -1e300);
    for (size_t token = 1; token < 64; token += 2) {
      const std::vector<double> of_token = logs(tile, token);
      for (size_t p = 0; p < largest.size(); ++p) largest[p] = std::max(largest[p], of_token[p]);
    }
    return largest;
  }

  // Returns the logarithms of the probabilities that a token of a tile gives to positions, each
  // from the head that gives most.
  std::vector<double> logs(size_t tile, size_t token) const {
    const size_t tile_begin = begin_ + tile * 64, local = tile_begin - 64;
    std::vector<double> largest(local, -1e300);
    for (size_t h = 0; h < head_.n_group; ++h) {
      const std::vector<double> scores = scores_of(tile * 64 + token, h);
      double summed = 0, sampled = 0, heaviest = 0;
      for (size_t p = 0; p < 16; ++p) summed += std::exp(scores[p]);
      for (size_t p = local; p <= tile_begin + token; ++p) summed += std::exp(scores[p]);
      for (size_t p = 32; p < local; p += 32) {
        sampled += std::exp(scores[p]);
        heaviest = std::max(heaviest, std::exp(scores[p]));
      }
      const double log_sum = std::log(summed + 32 * (sampled - heaviest) + heaviest);
      for (size_t p = 0; p < local; ++p) largest[p] = std::max(largest[p], scores[p] - log_sum);
    }
    return largest;
  }

 private:
  std::vector<double> scores_of(size_t token, size_t h) const {
    std::vector<float> query(head_.query(token, h), head_.query(token, h) + head_.head_size);
    for (float& value : query) value *= head_.scale;
    const std::vector<double> levels = rounded(query);
    // A cap is for the whole score.
    const double of_mean = std::inner_product(mean_.begin(), mean_.end(), query.begin(), 0.0);
    std::vector<double> scores;
    for (const auto& key : keys_) {
      const double score = std::inner_product(key.begin(), key.end(), levels.begin(), 0.0);
      const double cap = head_.soft_cap;
      scores.push_back(cap > 0 ? cap * std::tanh((score + of_mean) / cap) : score);
    }
    return scores;
  }

  const TestHead& head_;
  size_t begin_;
  std::vector<double> mean_;
  std::vector<std::vector<double>> keys_;
};

std::vector<float> estimated(TestHead& head, size_t n_tiles, size_t first_tile = 0) {
  const EstimateRoom room = {head.head_size, head.n_group, n_tiles};
  Workspace workspace(room.bytes());
  const size_t begin = head.n - head.n_tokens + first_tile * kTileTokens;
  std::vector<float> importance(n_tiles * head.n);
  estimate_tiles(table_here(), head.positions_of(begin + n_tiles * kTileTokens),
                 head.queries().from(first_tile * kTileTokens), begin, room, workspace.get(),
                 importance.data(), head.n);
  return importance;
}

TEST(Estimate, S1EqualsThePlainOneOnEveryShape) {
  for (const size_t head_size : {32, 64, 80, 128}) {
    for (const size_t n_group : {1, 3, 7}) {
      TestHead head(kTextBefore + 2 * 64, 2 * 64, head_size, n_group, 11);
      head.soft_cap = n_group == 3 ? 5.0f : 0.0f;
      const PlainEstimate plain(head, kTextBefore);
      const std::vector<float> mine = estimated(head, 2);
      for (size_t tile = 0; tile < 2; ++tile) {
        const std::vector<double> theirs = plain.importance(tile);
        for (size_t p = kFirst; p < theirs.size(); ++p) {
          // The two may round half a level of a score to different sides, and exp is not exact.
          ASSERT_NEAR(mine[tile * head.n + p], theirs[p], 0.02)
              << head_size << ", " << n_group << " at " << p;
        }
      }
    }
  }
}

// A mark says which token of a tile is the first to find a position worth attending to.
TEST(Estimate, S1S2MarksEqualThePlainOnes) {
  for (const size_t n_group : {1, 3, 7}) {
    TestHead head(kTextBefore + 2 * 64, 2 * 64, 64, n_group, 15);
    head.soft_cap = n_group == 3 ? 5.0f : 0.0f;
    const PlainEstimate plain(head, kTextBefore);
    const EstimateRoom room = {head.head_size, head.n_group, 2};
    Workspace workspace(room.bytes());
    std::vector<float> mine(2 * head.n);
    constexpr double kAbove = 2;
    mark_tiles(table_here(), head.positions(), head.queries(), kTextBefore, kAbove, room,
               workspace.get(), mine.data(), head.n);
    size_t n_marked = 0;
    for (size_t tile = 0; tile < 2; ++tile) {
      const double begin = static_cast<double>(kTextBefore + tile * 64);
      const double least = std::log(kAbove / begin);
      std::vector<double> theirs(kTextBefore + tile * 64 - kLocal, kNeverSeen);
      for (size_t token = 64; token >= 2;) {
        token -= 2;
        const std::vector<double> logs = plain.logs(tile, token);
        for (size_t p = 0; p < theirs.size(); ++p) {
          if (logs[p] > least + 0.02) theirs[p] = static_cast<double>(token);
          // Positions that are too near to the threshold are not compared.
          if (std::abs(logs[p] - least) <= 0.02 && theirs[p] >= 0) theirs[p] = -1.0 - theirs[p];
        }
      }
      for (size_t p = kFirst; p < theirs.size(); ++p) {
        if (theirs[p] >= 0) {
          EXPECT_EQ(mine[tile * head.n + p], theirs[p]) << tile << " at " << p;
        }
        n_marked += mine[tile * head.n + p] < kNeverSeen ? 1 : 0;
      }
    }
    EXPECT_GT(n_marked, 10u);
  }
}

TEST(Estimate, S1TilesTogetherAndAloneAreEqualToTheBit) {
  for (const size_t n_group : {1, 7}) {
    TestHead head(kTextBefore + 3 * 64, 3 * 64, 64, n_group, 12, tensor::Type::kF16);
    const std::vector<float> together = estimated(head, 3);
    for (size_t tile = 0; tile < 3; ++tile) {
      const std::vector<float> alone = estimated(head, 1, tile);
      const auto end = static_cast<std::ptrdiff_t>(kTextBefore + tile * 64 - kLocal);
      const auto mine = together.begin() + static_cast<std::ptrdiff_t>(tile * head.n);
      EXPECT_TRUE(std::equal(alone.begin() + kFirst, alone.begin() + end, mine + kFirst)) << tile;
    }
  }
}

// Returns the indices of the k largest values from `first` to `last`.
template <typename Values>
std::set<size_t> best_of(const Values& values, size_t first, size_t last, size_t k) {
  std::vector<size_t> order(last - first);
  std::iota(order.begin(), order.end(), first);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  return std::set<size_t>(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k));
}

double share_of(const std::set<size_t>& wanted, const std::set<size_t>& found) {
  size_t n = 0;
  for (const size_t p : found) n += wanted.count(p);
  return static_cast<double>(n) / static_cast<double>(wanted.size());
}

// Returns which share of a query's best fifth by floats its estimate finds too, in the mean.
double recall_of_queries(TestHead& head) {
  Areas counted(nullptr);
  KeyLevels(counted, head.head_size, head.n);
  const size_t query_bytes = query_level_bytes(head.head_size);
  Workspace workspace(counted.bytes()), levels(query_bytes);
  Areas areas(workspace.get());
  KeyLevels keys(areas, head.head_size, head.n);
  keys.set_mean(table_here(), head.positions());
  keys.pack(table_here(), head.positions(), 0, head.n, [](size_t i) { return i; });
  std::vector<float> scaled(head.head_size), scores(head.n);
  std::vector<double> exact(head.n);
  double sum = 0;
  for (size_t token = 0; token < head.n_tokens; ++token) {
    pack_query(table_here(), head.queries(), token, 0, scaled.data(), levels.get());
    kernels::PanelProduct product;
    product.last_strip = kernels::n_strips(head.n);
    product.n_tokens = 1;
    product.x = levels.get();
    product.x_stride_bytes = query_bytes;
    product.y = scores.data();
    product.y_stride = head.n;
    table_here().matmul_int8(keys.panels(head.n), product);
    for (size_t p = 0; p < head.n; ++p) exact[p] = head.score(token, 0, p);
    const size_t k = head.n / 5;
    sum += share_of(best_of(exact, 0, head.n, k), best_of(scores, 0, head.n, k));
  }
  return sum / static_cast<double>(head.n_tokens);
}

TEST(Estimate, S1ThePositionsOfAQueryAreThoseOfFloats) {
  TestHead head(2000, 30, 64, 1, 14);
  EXPECT_GT(recall_of_queries(head), 0.985);
  // A bias that all keys share, as in some models, loses nothing.
  TestHead biased(2000, 30, 64, 1, 14, tensor::Type::kF32, 100.0f);
  EXPECT_GT(recall_of_queries(biased), 0.985);
}

// Returns which share of the positions that floats would choose for a tile the estimate chooses
// too.
double recall_of_tile(TestHead& head) {
  const size_t local = head.n - head.n_tokens - kLocal, k = local / 5;
  const std::vector<float> mine = estimated(head, 1);
  std::vector<double> exact(local, -1e300);
  for (size_t token = 1; token < 64; token += 2) {
    for (size_t h = 0; h < head.n_group; ++h) {
      double total = 0;
      for (size_t p = 0; p <= head.n - head.n_tokens + token; ++p) {
        total += std::exp(head.score(token, h, p));
      }
      for (size_t p = 0; p < local; ++p) {
        exact[p] = std::max(exact[p], head.score(token, h, p) - std::log(total));
      }
    }
  }
  return share_of(best_of(exact, kFirst, local, k), best_of(mine, kFirst, local, k));
}

// Random scores differ little, and the sum of a query's weights is only estimated from a sample, so
// a fifth of the positions may be missed.
TEST(Estimate, S1FindsWhatFloatsFind) {
  TestHead head(kTextBefore + 64, 64, 64, 2, 13);
  EXPECT_GT(recall_of_tile(head), 0.8);
  TestHead biased(kTextBefore + 64, 64, 64, 2, 13, tensor::Type::kF32, 100.0f);
  EXPECT_GT(recall_of_tile(biased), 0.8);
}

// A cap leaves less of a difference between scores the larger they are, and the keys' mean makes
// them larger. So what a position weighs is known only where the mean counts before the cap.
TEST(Estimate, S1S2ACapIsForTheWholeScore) {
  TestHead head(kTextBefore + 64, 64, 64, 1, 13, tensor::Type::kF32, 30.0f);
  head.soft_cap = 5.0f;
  const std::vector<float> mine = estimated(head, 1);
  const size_t local = head.n - head.n_tokens - kLocal;
  for (const size_t token : {size_t{1}, size_t{63}}) {
    double largest = 0.0;  // of the scores' magnitudes
    for (size_t p = 0; p < local; ++p)
      largest = std::max(largest, std::abs(head.score(token, 0, p)));
    EXPECT_GT(largest, 0.8 * head.soft_cap);  // or else the cap does nothing
  }
  std::vector<double> exact(local, -1e300);
  for (size_t token = 1; token < 64; token += 2) {
    double total = 0;
    for (size_t p = 0; p <= head.n - head.n_tokens + token; ++p) {
      total += std::exp(head.score(token, 0, p));
    }
    for (size_t p = 0; p < local; ++p) {
      exact[p] = std::max(exact[p], head.score(token, 0, p) - std::log(total));
    }
  }
  double sum = 0.0;  // of the errors
  for (size_t p = kFirst; p < local; ++p) sum += std::abs(mine[p] - exact[p]);
  EXPECT_LT(sum / static_cast<double>(local - kFirst), 0.2);
}

}  // namespace
}  // namespace troika::attention
