// Tests exact attention: dense, over the list of a tile, and over the positions of a single query.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "attention/attention_test_support.h"
#include "attention/choose/lists.h"
#include "attention/estimate_recall.h"
#include "attention/int8_attention.h"
#include "attention/query_attention.h"
#include "attention/tile_attention.h"

namespace troika::attention {
namespace {

constexpr size_t kBegin = 768;

std::vector<uint32_t> first_positions(size_t n) {
  std::vector<uint32_t> all(n);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

// Returns dense attention of the tokens, as prompts compute it.
std::vector<float> dense(TestHead& head, size_t n_together) {
  std::vector<kernels::SeenPositions> seen;
  for (size_t t = 0; t < head.n_tokens; ++t) seen.push_back({0, head.n - head.n_tokens + t + 1});
  const PanelRoom room = {head.head_size, head.n_group, head.n_tokens, n_together};
  Workspace workspace(room.bytes());
  attend_in_panels(table_here(), head.positions(), head.queries(), seen, room, workspace.get());
  return head.out;
}

std::vector<float> by_tile(TestHead& head, TileChoice choice, size_t n_together) {
  std::fill(head.out.begin(), head.out.end(), -7.0f);
  const size_t begin = head.n - head.n_tokens;
  for (size_t first = 0; first < head.n_tokens; first += n_together * kTileTokens) {
    const size_t n_tiles = std::min(n_together, (head.n_tokens - first) / kTileTokens);
    const TileRoom room = {head.head_size, head.n_group, n_tiles};
    const size_t n_positions = begin + first + n_tiles * kTileTokens;
    Workspace workspace(room.bytes()), lists(room.list_bytes(n_positions));
    attend_tiles(table_here(), head.positions_of(n_positions), head.queries().from(first),
                 begin + first, choice, room, workspace.get(), lists.get());
  }
  return head.out;
}
std::vector<float> by_tile(TestHead& head, double share, size_t n_together) {
  return by_tile(head, {ChoiceRule::kPositions, share}, n_together);
}
TileChoice what_weighs(double above) { return {ChoiceRule::kWeighty, 0.0, above}; }

std::vector<float> by_query(TestHead& head, double share, std::span<const ScalePair> buckets = {}) {
  std::fill(head.out.begin(), head.out.end(), -7.0f);
  const QueryRoom room = {head.head_size, head.n_group};
  Workspace workspace(room.bytes(head.n));
  attend_by_query(
      table_here(), head.positions(), head.queries(), head.n - head.n_tokens, head.n_tokens,
      [&](size_t) { return share; }, buckets, room, workspace.get());
  return head.out;
}

TEST(PanelAttention, S2ListsAreAttendedToExactly) {
  for (const size_t n_group : {1, 3, 7}) {
    TestHead head(300, 40, 64, n_group, 5);
    head.soft_cap = n_group == 3 ? 4.0f : 0.0f;
    const std::vector<float> alone = dense(head, 1);
    for (size_t t = 0; t < head.n_tokens; ++t) {
      for (size_t h = 0; h < n_group; ++h) {
        const std::vector<double> plain =
            head.plain(t, h, first_positions(head.n - head.n_tokens + t + 1));
        // bfloat16 keeps 8 bits of keys, queries, weights and values.
        EXPECT_LT(largest_difference(alone, (t * n_group + h) * head.head_size, plain), 0.03);
      }
    }
    // The number of queries that are computed together changes no bit.
    for (const size_t n_together : {7, 16, 40}) EXPECT_EQ(dense(head, n_together), alone);
  }
}

TEST(TileAttention, S2AllPositionsAreDenseAttentionToTheBit) {
  for (const auto type : {tensor::Type::kF32, tensor::Type::kF16, tensor::Type::kQ8_0}) {
    for (const size_t n_group : {1, 3, 7}) {
      TestHead head(kBegin + 3 * 64, 3 * 64, 64, n_group, 21, type);
      const std::vector<float> wanted = dense(head, tokens_together(n_group));
      EXPECT_EQ(by_tile(head, 1.0, 3), wanted);
      // All positions are estimated, and all are kept.
      EXPECT_EQ(by_tile(head, 1.0 - 1e-9, 3), wanted);
    }
  }
}

TEST(TileAttention, S2TilesTogetherAndAloneAreEqualToTheBit) {
  for (const size_t n_group : {1, 7}) {
    TestHead head(kBegin + 4 * 64, 4 * 64, 64, n_group, 22, tensor::Type::kF16);
    const std::vector<float> alone = by_tile(head, 0.2, 1);
    const std::vector<float> weighty = by_tile(head, what_weighs(2), 1);
    EXPECT_NE(weighty, alone);
    for (const size_t n_together : {2, 3, 4}) {
      EXPECT_EQ(by_tile(head, 0.2, n_together), alone);
      EXPECT_EQ(by_tile(head, what_weighs(2), n_together), weighty);
    }
  }
}

// Queries, keys and values of later tokens change no bit of earlier ones, also within a tile.
TEST(TileAttention, S2NoTokenSeesWhatALaterOneChose) {
  for (const size_t n_group : {1, 3}) {
    TestHead head(kBegin + 64, 64, 64, n_group, 25, tensor::Type::kF16);
    const std::vector<float> before = by_tile(head, what_weighs(2), 1);
    const std::vector<float> by_share = by_tile(head, 0.2, 1);
    for (const size_t token : {63, 40, 3}) {
      TestHead other(kBegin + 64, 64, 64, n_group, 26, tensor::Type::kF16);
      std::copy_n(head.q.begin(), token * n_group * 64, other.q.begin());
      other.keys = head.keys;
      other.slots = head.slots;
      other.key_page = head.key_page;
      other.value_page = head.value_page;
      for (size_t p = kBegin + token; p < head.n; ++p) {
        const std::vector<float> far(64, -3.0f);
        for (std::vector<std::byte>* page : {&other.key_page, &other.value_page}) {
          table_here().store_kv(head.type, far.data(), page->data() + head.slots[p] * 128, 64);
        }
      }
      other.pages[0] = other.key_page.data();
      other.pages[1] = other.value_page.data();
      const auto n_same = static_cast<std::ptrdiff_t>(token * n_group * 64);
      const auto same = [&](const std::vector<float>& a, const std::vector<float>& b) {
        return std::equal(a.begin(), a.begin() + n_same, b.begin());
      };
      const std::vector<float> after = by_tile(other, what_weighs(2), 1);
      EXPECT_TRUE(same(after, before)) << token;
      EXPECT_NE(after, before);
      // If a share of best positions is kept, later tokens do choose for earlier ones.
      if (token == 3) {
        EXPECT_FALSE(same(by_tile(other, 0.2, 1), by_share));
      }
    }
  }
}

// With a tiny threshold nothing is left out. With a huge one only the positions stay that are
// always kept.
TEST(TileAttention, S2TheThresholdSaysHowMuchIsKept) {
  TestHead head(kBegin + 64, 64, 64, 2, 27);
  head.scale = 0.5f;
  std::vector<float> plain_all = by_tile(head, 1.0, 1);
  const auto off_by = [&](double above) {
    const std::vector<float> some = by_tile(head, what_weighs(above), 1);
    double sum = 0;
    for (size_t i = 0; i < some.size(); ++i) sum += std::abs(some[i] - plain_all[i]);
    return sum;
  };
  EXPECT_LT(off_by(1e-6), 1e-2 * off_by(1e6));
  EXPECT_LT(off_by(3), 0.2 * off_by(1e6));
}

TEST(TileAttention, S2TokensSeeWhatEarlierOnesMarked) {
  std::vector<float> marks(kBegin, kNeverSeen);
  marks[100] = 6;
  marks[101] = 2;
  marks[16] = 62;
  marks[300] = 0;
  std::vector<uint32_t> list(kBegin + 64);
  std::array<size_t, kTileTokens> n_seen{};
  list_of_marks(kBegin, marks.data(), list.data(), n_seen);
  constexpr size_t kAlways = kFirst + kLocal;
  const auto part = [&](size_t begin, size_t n) {
    return std::vector<uint32_t>(list.begin() + static_cast<std::ptrdiff_t>(begin),
                                 list.begin() + static_cast<std::ptrdiff_t>(begin + n));
  };
  const auto from = static_cast<uint32_t>(kBegin);
  EXPECT_EQ(part(0, kFirst), first_positions(kFirst));
  EXPECT_EQ(part(kFirst, 1).front(), kBegin - kLocal);
  // A marked position brings its neighbours along. The token itself comes last.
  EXPECT_EQ(part(kAlways, 4), (std::vector<uint32_t>{299, 300, 301, from}));
  EXPECT_EQ(n_seen[0], kAlways + 4);
  EXPECT_EQ(n_seen[1], kAlways + 5);
  EXPECT_EQ(part(n_seen[1], 4), (std::vector<uint32_t>{100, 101, 102, from + 2}));
  EXPECT_EQ(part(n_seen[5], 2), (std::vector<uint32_t>{99, from + 6}));
  EXPECT_EQ(part(n_seen[61], 3), (std::vector<uint32_t>{16, 17, from + 62}));
  EXPECT_EQ(n_seen[63], kAlways + 64 + 9);
}

TEST(TileAttention, S2KeepsFirstCloseAndHeavyPositions) {
  std::vector<float> importance(kBegin, -9.0f);
  importance[100] = -1.0f;
  importance[102] = -2.0f;
  importance[200] = -2.0f;
  importance[16] = -1.5f;
  importance[kBegin - kLocal - 1] = -3.0f;
  const auto list = [&](double share) {
    std::vector<float> values = importance;
    std::vector<uint32_t> kept(kBegin);
    kept.resize(list_of_tile(table_here(), share, kBegin, values.data(), kept.data()));
    return kept;
  };
  constexpr double kBetween = kBegin - kLocal - kFirst;
  // The best five come with their neighbours. The first and second share one, and the last has only
  // one.
  std::vector<uint32_t> wanted = first_positions(18);
  for (const uint32_t p : {99, 100, 101, 102, 103, 199, 200, 201, 702, 703}) wanted.push_back(p);
  for (uint32_t p = kBegin - kLocal; p < kBegin; ++p) wanted.push_back(p);
  EXPECT_EQ(list(12 / kBetween), wanted);
  // Where there is no room for a position with all its neighbours, the first of them are kept.
  wanted.erase(std::find(wanted.begin(), wanted.end(), 702u),
               std::find(wanted.begin(), wanted.end(), 704u));
  wanted.erase(std::find(wanted.begin(), wanted.end(), 201u));
  EXPECT_EQ(list(9 / kBetween), wanted);
  EXPECT_EQ(list(1.0), first_positions(kBegin));
}

// If few positions carry the attention, a fifth of the positions keeps it.
TEST(TileAttention, S1S2AFifthOfThePositionsComesNearToAll) {
  TestHead head(kBegin + 64, 64, 64, 2, 23);
  head.scale = 0.5f;
  const std::vector<float> all = by_tile(head, 1.0, 1);
  const std::vector<float> some = by_tile(head, 0.2, 1);
  const std::vector<float> few = by_tile(head, 0.001, 1);
  double of_some = 0, of_few = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    of_some += std::abs(some[i] - all[i]);
    of_few += std::abs(few[i] - all[i]);
  }
  EXPECT_NE(some, all);
  EXPECT_LT(of_some, 0.1 * of_few);
}

// A bound on differences must see results that are no numbers, wherever they stand.
TEST(AttentionTests, WhatIsNoNumberIsFarFromEveryBound) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(largest_difference({9.0f, 1.0f, 2.0f}, 1, {1.5, 2.0}), 0.5);
  for (const std::vector<float>& found : {std::vector<float>{kNone, 2.0f}, {1.0f, kNone}}) {
    EXPECT_GT(largest_difference(found, 0, {1.0, 2.0}), 1e300);
  }
  EXPECT_GT(largest_difference({1.0f, 2.0f}, 0, {kNone, 2.0}), 1e300);
}

TEST(QueryAttention, S2AllPositionsAreAttentionOfStepsToTheBit) {
  for (const size_t n_group : {1, 3}) {
    TestHead head(kBegin + 10, 10, 64, n_group, 31, tensor::Type::kF16);
    const std::vector<float> mine = by_query(head, 1.0);
    std::vector<float> theirs(head.out.size());
    for (size_t t = 0; t < head.n_tokens; ++t) {
      const Positions positions = head.positions_of(kBegin + t + 1);
      kernels::Attention args;
      args.q = head.query(t, 0);
      args.q_stride = args.out_stride = head.head_size;
      args.n_heads = static_cast<uint32_t>(n_group);
      args.head_size = static_cast<uint32_t>(head.head_size);
      args.k = positions.k;
      args.v = positions.v;
      args.prefix = positions.past;
      args.own = positions.own;
      args.scale = head.scale;
      args.out = theirs.data() + t * n_group * head.head_size;
      table_here().attention(args);
    }
    EXPECT_EQ(mine, theirs);
  }
}

// The chosen positions are those of the largest float scores but for a few, so the result is near
// that of exact attention over the best.
TEST(QueryAttention, S1S2EachQueryAttendsToItsOwnBestPositions) {
  TestHead head(kBegin + 6, 6, 64, 2, 32);
  head.scale = 0.5f;
  const std::vector<float> mine = by_query(head, 0.2);
  for (size_t t = 0; t < head.n_tokens; ++t) {
    for (size_t h = 0; h < head.n_group; ++h) {
      const size_t n = kBegin + t + 1, k = (n + 4) / 5;
      std::vector<uint32_t> best = first_positions(n);
      std::stable_sort(best.begin(), best.end(), [&](uint32_t a, uint32_t b) {
        return head.score(t, h, a) > head.score(t, h, b);
      });
      best.resize(k);
      const std::vector<double> plain = head.plain(t, h, best);
      EXPECT_LT(largest_difference(mine, (t * head.n_group + h) * head.head_size, plain), 0.02);
    }
  }
}

// An estimate is the product of whole levels times fixed scales. They come from the bucket that is
// nearest to the scales of the tile's queries and of the keys before it. Keys count without their
// mean, which all positions share.
TEST(QueryAttention, S4EstimatesWithTheNearestFixedScales) {
  TestHead head(kBegin + 64, 64, 64, 2, 33);
  const ScalesOfTile scales =
      scales_of_tile(table_here(), head.positions(), head.queries(), kBegin);
  // The scale of queries is half of what they need, so that some are clipped. That of keys is twice
  // what they need.
  const std::vector<ScalePair> buckets = {{scales.q[0] / 2, 2 * scales.k}, {90.0f, 90.0f}};
  Areas counted(nullptr);
  QueryEstimate::count(head.head_size, head.n, counted);
  Workspace room(counted.bytes());
  Areas areas(room.get());
  const Positions positions = head.positions();
  const Queries queries = head.queries();
  QueryEstimate estimate(table_here(), positions, queries, kBegin, buckets, areas);
  std::vector<float> mean(head.head_size), scores(16 * head.n);
  const float n_mean = static_cast<float>(kMeanEnd / kMeanStride - 1);
  for (size_t p = kMeanStride; p < kMeanEnd; p += kMeanStride) {
    for (size_t i = 0; i < head.head_size; ++i)
      mean[i] += head.keys[p * head.head_size + i] / n_mean;
  }
  estimate.score(16, 16, 1, scores.data(), head.n);
  std::vector<int8_t> q(head.head_size), k(head.head_size);
  std::vector<float> values(head.head_size);
  size_t n_clipped = 0;
  for (size_t t = 0; t < 16; ++t) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = head.scale * head.query(16 + t, 1)[i];
    n_clipped += quantize_by(values, buckets[0].q, q.data());
    for (size_t p = 0; p < kBegin + 16 + 16; ++p) {
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = head.keys[p * head.head_size + i] - mean[i];
      }
      quantize_by(values, buckets[0].k, k.data());
      int sum = 0;
      for (size_t i = 0; i < q.size(); ++i) sum += q[i] * k[i];
      // A value in the middle of two levels may be rounded to either side.
      ASSERT_NEAR(scores[t * head.n + p], static_cast<float>(sum) * buckets[0].q * buckets[0].k,
                  2 * 127.5f * buckets[0].q * buckets[0].k);
    }
  }
  EXPECT_GT(n_clipped, 0u);
}

// With all positions, the estimates do not matter; with some positions they do.
TEST(QueryAttention, S4FixedScalesOnlyChoose) {
  TestHead head(kBegin + 128, 128, 64, 3, 34, tensor::Type::kF16);
  const std::vector<ScalePair> coarse = {{0.1f, 1.0f}};
  EXPECT_EQ(by_query(head, 1.0, coarse), by_query(head, 1.0));
  EXPECT_NE(by_query(head, 0.2, coarse), by_query(head, 0.2));
}

// The estimate finds nearly all of the best positions with scales that fit, and fewer with scales
// that are far off.
TEST(EstimateRecall, S1S4FallsWithScalesThatAreFarOff) {
  TestHead head(kBegin + 64, 64, 64, 2, 35);
  const ScalesOfTile scales =
      scales_of_tile(table_here(), head.positions(), head.queries(), kBegin);
  std::vector<EstimateWay> ways(4);
  ways[1].has_own_scales = false;
  ways[2] = {true, false, {{scales.q[0] / 8, scales.k / 8}}};
  ways[3] = {true, false, {{scales.q[0] * 32, scales.k * 32}}};
  std::vector<EstimateRecall> found(ways.size());
  add_recall(table_here(), head.positions(), head.queries(), kBegin, ways, found);
  for (const EstimateRecall& way : found) EXPECT_EQ(way.n_queries, 4 * head.n_group);
  const auto recall = [&](size_t way) {
    return found[way].recall[0] / static_cast<double>(found[way].n_queries);
  };
  EXPECT_GT(recall(0), 0.98);
  EXPECT_GT(recall(1), 0.95);
  EXPECT_LT(recall(2), recall(1));
  EXPECT_LT(recall(3), recall(1));
  EXPECT_EQ(found[0].n_clipped_of_queries + found[0].n_clipped_of_keys, 0u);
  EXPECT_EQ(found[1].n_clipped_of_queries + found[1].n_clipped_of_keys, 0u);
  EXPECT_GT(found[2].n_clipped_of_queries, 0u);
  EXPECT_GT(found[2].n_clipped_of_keys, 0u);
  EXPECT_EQ(found[3].n_clipped_of_queries + found[3].n_clipped_of_keys, 0u);
}

// The bucket is the one nearest to the keys before the tile, as where a model runs: larger keys of
// the tile's own tokens are clipped.
TEST(EstimateRecall, S4BucketsGoByTheKeysBeforeTheTile) {
  TestHead head(kBegin + 64, 64, 64, 2, 36);
  for (size_t i = kBegin * head.head_size; i < head.keys.size(); ++i) head.keys[i] *= 16;
  for (size_t p = kBegin; p < head.n; ++p) {
    table_here().store_kv(head.type, head.keys.data() + p * 64,
                          head.key_page.data() + head.slots[p] * 64 * sizeof(float), 64);
  }
  const ScalesOfTile scales =
      scales_of_tile(table_here(), head.positions(), head.queries(), kBegin);
  const ScalePair near = {scales.q[0], scales.k}, far = {scales.q[0], 16 * scales.k};
  const std::vector<EstimateWay> ways = {{true, false, {near}}, {true, false, {near, far}}};
  std::vector<EstimateRecall> found(ways.size());
  add_recall(table_here(), head.positions(), head.queries(), kBegin, ways, found);
  EXPECT_GT(found[0].n_clipped_of_keys, 0u);
  EXPECT_EQ(found[1].n_clipped_of_keys, found[0].n_clipped_of_keys);
  EXPECT_EQ(found[1].recall, found[0].recall);
}

size_t n_keys_loaded = 0;

// Where heads take the same scale of keys, more heads search and pack no more keys.
TEST(QueryAttention, S4S5KeysAreSearchedAndPackedOnceForAllHeads) {
  TestHead head(kBegin + 3 * 64, 3 * 64, 64, 4, 37);
  // Keys grow from tile to tile, so that tiles differ in their bucket.
  for (size_t p = 0; p < head.n; ++p) {
    for (size_t i = 0; i < 64; ++i) head.keys[p * 64 + i] *= p < kBegin + 64 ? 1.0f : 4.0f;
    table_here().store_kv(head.type, head.keys.data() + p * 64,
                          head.key_page.data() + head.slots[p] * 64 * sizeof(float), 64);
  }
  const Positions positions = head.positions();
  const Queries queries = head.queries();
  const ScalesOfTile scales = scales_of_tile(table_here(), positions, queries, kBegin);
  const std::vector<ScalePair> buckets = buckets_around({scales.q[0], 2 * scales.k}, 9);
  kernels::Table counting = table_here();
  counting.load_kv = [](tensor::Type type, const std::byte* row, float* x, size_t n) {
    ++n_keys_loaded;
    table_here().load_kv(type, row, x, n);
  };
  Areas counted(nullptr);
  QueryEstimate::count(head.head_size, head.n, counted);
  std::vector<size_t> n_loaded;
  std::vector<std::vector<float>> of_head_0;
  for (const std::vector<size_t>& heads : {std::vector<size_t>{0}, {0, 1, 2, 3}}) {
    Workspace room(counted.bytes());
    Areas areas(room.get());
    QueryEstimate estimate(counting, positions, queries, kBegin, buckets, areas);
    std::vector<float> scores(4 * head.n_tokens * head.n);
    n_keys_loaded = 0;
    estimate.score_heads(0, head.n_tokens, heads, head.n, [&](size_t of, size_t token) {
      return scores.data() + (of * head.n_tokens + token) * head.n;
    });
    n_loaded.push_back(n_keys_loaded);
    scores.resize(head.n_tokens * head.n);
    of_head_0.push_back(std::move(scores));
  }
  EXPECT_GT(n_loaded[0], 2 * head.n);  // one search, and packed for more than one bucket
  EXPECT_EQ(n_loaded[1], n_loaded[0]);
  EXPECT_EQ(of_head_0[1], of_head_0[0]);
}

TEST(TileAttention, S8BlocksAreChosenWhole) {
  TestHead head(kBegin + 64, 64, 64, 2, 41);
  // The keys of one block lie in the direction of all queries.
  for (size_t p = 5 * 64; p < 6 * 64; ++p) {
    for (size_t i = 0; i < 64; ++i) {
      float sum = 0;
      for (size_t t = 0; t < 64; ++t) sum += head.query(t, 0)[i] / 64;
      head.keys[p * 64 + i] = sum;
    }
    table_here().store_kv(head.type, head.keys.data() + p * 64,
                          head.key_page.data() + head.slots[p] * 64 * sizeof(float), 64);
  }
  std::vector<uint32_t> list(kBegin);
  const double one = 1.0 / static_cast<double>(kBegin / 64 - 2);
  list.resize(
      list_of_blocks(table_here(), head.positions(), head.queries(), kBegin, one, list.data()));
  std::vector<uint32_t> wanted;
  for (const size_t block : {size_t{0}, size_t{5}, kBegin / 64 - 1}) {
    for (size_t i = 0; i < 64; ++i) wanted.push_back(static_cast<uint32_t>(block * 64 + i));
  }
  EXPECT_EQ(list, wanted);
}

// Overwrites an element of a position's row in a page by what is no number, or by infinity.
void spoil(TestHead& head, std::vector<std::byte>& page, size_t position, size_t element,
           float bad) {
  std::byte* const stored =
      page.data() + head.slots[position] * tensor::row_bytes(head.type, head.head_size);
  std::vector<float> row(head.head_size);
  table_here().load_kv(head.type, stored, row.data(), row.size());
  row[element] = bad;
  table_here().store_kv(head.type, row.data(), stored, row.size());
}

void spoil_key(TestHead& head, size_t position, float bad, size_t element = 0) {
  spoil(head, head.key_page, position, element, bad);
}

std::vector<float> in_int8(TestHead& head) {
  const Int8Room room = {head.head_size, head.n_group};
  Workspace workspace(room.bytes());
  attend_in_int8(table_here(), head.positions(), head.queries(), kBegin, room, workspace.get());
  return head.out;
}

// Says whether attention to all positions is no number, where an element of a key is `bad`. A score
// of minus infinity has no share in it.
bool is_spoiled(const TestHead& head, size_t token, size_t of_group, size_t element, float bad) {
  return !(head.query(token, of_group)[element] * bad < 0.0f);
}

// Where attention to all positions is no number, attention that chooses is none: with such a key
// among those whose mean is subtracted (264), those that stand for others (704), others (301), and
// the close ones (760).
TEST(TileAttention, S1S2KeysThatAreNoNumbersAreNotLost) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kOdd = std::numeric_limits<float>::quiet_NaN();
  const std::vector<ScalePair> buckets = {{1.0f, 1.0f}};
  for (const size_t position : {264, 301, 704, 760}) {
    for (const auto& [element, bad] : std::vector<std::pair<size_t, float>>{
             {0, kOdd}, {0, kInfinity}, {7, kInfinity}, {0, -kInfinity}, {7, -kInfinity}}) {
      TestHead head(kBegin + 64, 64, 64, 2, 23, tensor::Type::kF16);
      spoil_key(head, position, bad, element);
      const auto expect_none = [&](const std::vector<float>& out, const char* form) {
        size_t n_lost = 0;
        for (size_t t = 0; t < 64; ++t) {
          for (size_t h = 0; h < 2; ++h) {
            if (!is_spoiled(head, t, h, element, bad)) continue;
            const auto first = out.begin() + static_cast<ptrdiff_t>((t * 2 + h) * 64);
            n_lost += static_cast<size_t>(
                std::count_if(first, first + 64, [](float x) { return std::isfinite(x); }));
          }
        }
        EXPECT_EQ(n_lost, 0u) << form << ", position " << position << ", element " << element
                              << ", " << bad;
      };
      expect_none(by_tile(head, 0.1, 1), "share");
      expect_none(by_tile(head, what_weighs(20), 1), "weight");
      expect_none(by_tile(head, {ChoiceRule::kBlocks, 0.1}, 1), "blocks");
      expect_none(by_query(head, 0.01), "query");
      expect_none(by_query(head, 0.01, buckets), "query with fixed scales");
      expect_none(in_int8(head), "int8");
    }
  }
}

// A key that is no number, of a later tile, changes nothing of an earlier one.
TEST(TileAttention, S2KeysThatAreNoNumbersChangeNoEarlierTile) {
  TestHead head(kBegin + 4 * 64, 4 * 64, 64, 2, 24, tensor::Type::kF16);
  spoil_key(head, kBegin + 64, std::numeric_limits<float>::quiet_NaN());
  for (const TileChoice choice : {TileChoice{ChoiceRule::kPositions, 0.2}, what_weighs(2)}) {
    const auto first_tile = [&](std::vector<float> out) {
      out.resize(64 * head.n_group * head.head_size);
      return out;
    };
    const std::vector<float> alone = first_tile(by_tile(head, choice, 1));
    EXPECT_TRUE(std::isfinite(alone.front()));
    EXPECT_EQ(first_tile(by_tile(head, choice, 4)), alone);
    EXPECT_TRUE(std::isnan(head.out.back()));
  }
}

// Tokens that do not see a value stay what they are beside one that is no number.
TEST(Int8Attention, S8ValuesThatAreNoNumbersSpoilNoEarlierToken) {
  constexpr size_t kOddToken = 30, kElement = 7;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    TestHead head(kBegin + 64, 64, 64, 2, 43, tensor::Type::kF16);
    spoil(head, head.value_page, kBegin + kOddToken, kElement, 0.0f);
    const std::vector<float> plain = in_int8(head);
    spoil(head, head.value_page, kBegin + kOddToken, kElement, bad);
    const std::vector<float> odd = in_int8(head);
    for (size_t i = 0; i < odd.size(); ++i) {
      const bool sees_it = i / (2 * 64) >= kOddToken && i % 64 == kElement;
      EXPECT_TRUE(sees_it ? !std::isfinite(odd[i]) : odd[i] == plain[i]) << i << ", " << bad;
    }
  }
}

TEST(Int8Attention, S8IsNearToFloats) {
  for (const size_t n_group : {1, 3}) {
    for (const float soft_cap : {0.0f, 5.0f}) {
      TestHead head(kBegin + 64, 64, 64, n_group, 42, tensor::Type::kF16);
      head.soft_cap = soft_cap;
      in_int8(head);
      for (size_t t = 0; t < 64; ++t) {
        for (size_t h = 0; h < n_group; ++h) {
          const std::vector<double> plain = head.plain(t, h, first_positions(kBegin + t + 1));
          const double difference = largest_difference(head.out, (t * n_group + h) * 64, plain);
          EXPECT_LT(difference, 0.3);
          EXPECT_GT(difference, 1e-4);  // shows that int8 is coarse
        }
      }
    }
  }
}

}  // namespace
}  // namespace troika::attention
