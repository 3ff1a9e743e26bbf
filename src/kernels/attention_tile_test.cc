#include "kernels/attention_tile.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "kernels/attention_test_support.h"

namespace troika::kernels {
namespace {

// By the numerics law, tokens that are computed together have the bits of each by itself.
class AttentionTileTest : public EveryImplementation {
 protected:
  struct Case {
    size_t head_size = 64, n_heads = 2, n_tokens = 20;
    size_t n_before = 0;  // counts positions that the first token sees beside its own
    size_t window = 0;
    size_t most_new = 1;  // limits the positions that come with each token
    Type k_type = Type::kF16, v_type = Type::kF16;
    float soft_cap = 0;
    float q_scale = 1;
  };

  static std::vector<SeenPositions> seen_of(const Case& c) {
    std::mt19937 random(static_cast<uint32_t>(c.n_before * 100 + c.n_tokens));
    std::vector<SeenPositions> seen;
    size_t last = c.n_before;
    for (size_t t = 0; t < c.n_tokens; ++t) {
      last += c.most_new > 1 ? random() % (c.most_new + 1) : c.most_new;
      seen.push_back({c.window > 0 && last > c.window ? last - c.window : 0, last});
    }
    return seen;
  }

  // Compares tokens together with each alone. The first list of the tile has n_prefix positions.
  void compare(const Case& c, size_t n_prefix, const TestCache& k, const TestCache& v) {
    const std::vector<SeenPositions> seen = seen_of(c);
    const std::vector<uint32_t> slots = shuffled_slots(seen.back().last);
    const size_t token_floats = c.n_heads * c.head_size + 3;
    const std::vector<float> q = random_floats(c.n_tokens * token_floats, 77, c.q_scale);
    std::vector<float> together(q.size(), -3), alone(q.size(), -3);
    std::vector<float> workspace(attention_tile_floats(c.head_size) + 16);
    Attention args = attention_of(q, c.n_heads, c.head_size, k, v);
    args.scale = 1 / std::sqrt(static_cast<float>(c.head_size));
    args.soft_cap = c.soft_cap;
    const std::span<const uint32_t> list(slots);
    n_prefix = std::min(n_prefix, slots.size());
    AttentionTile tile{args, seen, {}, token_floats, token_floats, workspace.data()};
    tile.first.out = together.data();
    tile.first.prefix = list.first(n_prefix);
    tile.first.own = list.subspan(n_prefix);
    table().attention_tile(tile);
    for (size_t t = 0; t < c.n_tokens; ++t) {
      args.q = q.data() + t * token_floats;
      args.out = alone.data() + t * token_floats;
      args.own = list.subspan(seen[t].first, seen[t].last - seen[t].first);
      table().attention(args);
    }
    for (size_t i = 0; i < q.size(); ++i) {
      ASSERT_EQ(std::memcmp(&together[i], &alone[i], sizeof(float)), 0)
          << together[i] << " " << alone[i] << " token " << i / token_floats << " of " << c.n_tokens
          << ", element " << i % token_floats << ", head size " << c.head_size << ", heads "
          << c.n_heads << ", " << c.n_before << " before, window " << c.window << ", "
          << tensor::type_name(c.k_type) << " " << tensor::type_name(c.v_type);
    }
  }

  void compare(const Case& c) {
    const size_t n = seen_of(c).back().last;
    const TestCache k(reference::kTable, c.k_type, c.head_size, n, 1000);
    const TestCache v(reference::kTable, c.v_type, c.head_size, n, 9000);
    compare(c, c.n_before, k, v);
  }
};

TEST_P(AttentionTileTest, EveryNumberOfTokens) {
  for (size_t n = 1; n <= 70; ++n) compare({.n_tokens = n, .n_before = n * 5 % 64});
  for (const size_t n : {96, 97, 200}) compare({.n_heads = 1, .n_tokens = n});
}

TEST_P(AttentionTileTest, EveryHeadSizeAndGroup) {
  for (const size_t head_size : {32, 40, 48, 64, 72, 80, 96, 100, 128, 256, 8, 5, 39}) {
    compare({.head_size = head_size, .n_heads = 3, .n_before = 50});
    compare({.head_size = head_size, .n_heads = 3, .n_before = 50, .v_type = Type::kF32});
  }
  for (const size_t n_heads : {0, 1, 2, 3, 4, 5, 6, 7, 8, 24, 48, 49, 97}) {
    compare({.head_size = 32, .n_heads = n_heads, .n_tokens = 9, .n_before = 60});
  }
}

TEST_P(AttentionTileTest, EveryCacheType) {
  for (const Type k_type : kCacheTypes) {
    for (const Type v_type : kCacheTypes) {
      compare({.n_before = 100, .k_type = k_type, .v_type = v_type});
    }
  }
}

TEST_P(AttentionTileTest, SoftCapsAndLargeScores) {
  compare({.n_before = 130, .soft_cap = 5});
  compare({.n_before = 130, .window = 90, .soft_cap = 50, .q_scale = 20});
  compare({.n_before = 130, .q_scale = 100});
}

TEST_P(AttentionTileTest, LongListsInSegments) {
  for (const size_t n : {440, 505, 511, 512, 513, 1015}) {
    compare({.head_size = 32, .n_heads = 2, .n_tokens = 30, .n_before = n});
  }
}

TEST_P(AttentionTileTest, WindowsThatEachTokenBeginsElsewhere) {
  for (const size_t window : {1, 2, 7, 63, 64, 65, 100}) {
    for (const size_t n_heads : {1, 6}) {
      compare(
          {.head_size = 32, .n_heads = n_heads, .n_tokens = 50, .n_before = 40, .window = window});
    }
  }
  compare({.head_size = 32, .n_tokens = 50, .n_before = 500, .window = 513});
  compare({.head_size = 32, .n_tokens = 30, .n_before = 1100, .window = 600});
}

TEST_P(AttentionTileTest, TokensThatSeeManyNewPositionsOrNone) {
  for (const size_t most_new : {0, 2, 5, 40}) {
    for (const size_t window : {0, 30, 100}) {
      for (const size_t n_before : {0, 1, 70}) {
        compare({.head_size = 32,
                 .n_tokens = 40,
                 .n_before = n_before,
                 .window = window,
                 .most_new = most_new});
      }
    }
  }
}

TEST_P(AttentionTileTest, ListsMayMeetAnywhere) {
  const Case c{.n_before = 100};
  const TestCache k(reference::kTable, c.k_type, c.head_size, 120, 1);
  const TestCache v(reference::kTable, c.v_type, c.head_size, 120, 5);
  for (const size_t n_prefix : {0, 1, 63, 64, 100, 110, 120}) compare(c, n_prefix, k, v);
}

// A value that is no number does not reach tokens that do not see it.
TEST_P(AttentionTileTest, WhatATokenDoesNotSeeDoesNotReachIt) {
  constexpr size_t kTokens = 20, kHeadSize = 64;
  const std::vector<uint32_t> slots = shuffled_slots(kTokens);
  TestCache k(reference::kTable, Type::kF32, kHeadSize, kTokens, 1);
  TestCache v(reference::kTable, Type::kF32, kHeadSize, kTokens, 5);
  const std::vector<float> bad(kHeadSize, std::numeric_limits<float>::quiet_NaN());
  for (TestCache* cache : {&k, &v}) {
    const size_t row = (slots.back() % (1u << kPageLog2)) * kKvHeads + 1;
    std::memcpy(cache->pages[slots.back() >> kPageLog2].data() + row * kHeadSize * sizeof(float),
                bad.data(), kHeadSize * sizeof(float));
  }
  std::vector<SeenPositions> seen;
  for (size_t t = 0; t < kTokens; ++t) seen.push_back({0, t + 1});
  const std::vector<float> q = random_floats(kTokens * kHeadSize, 3);
  std::vector<float> out(q.size()), workspace(attention_tile_floats(kHeadSize));
  AttentionTile tile{
      attention_of(q, 1, kHeadSize, k, v), seen, {}, kHeadSize, kHeadSize, workspace.data()};
  tile.first.own = slots;
  tile.first.out = out.data();
  table().attention_tile(tile);
  for (size_t i = 0; i < (kTokens - 1) * kHeadSize; ++i) ASSERT_FALSE(std::isnan(out[i])) << i;
}

// All tokens of a tree see the prefix, and each sees its own ancestors behind it.
TEST_P(AttentionTileTest, TokensThatBranch) {
  constexpr size_t kHeadSize = 32;
  std::mt19937 random(5);
  for (const size_t n_prefix : {0, 1, 50, 63, 64, 65, 130, 440, 505, 512, 1015}) {
    for (const auto& [n_tokens, n_heads] :
         {std::pair<size_t, size_t>(2, 6), {15, 6}, {32, 1}, {7, 30}}) {
      const std::vector<uint32_t> slots = shuffled_slots(n_prefix + n_tokens);
      const TestCache k(reference::kTable, Type::kF16, kHeadSize, slots.size(), 11);
      const TestCache v(reference::kTable, Type::kF16, kHeadSize, slots.size(), 12);
      const std::span<const uint32_t> prefix = std::span(slots).first(n_prefix);
      std::vector<std::vector<uint32_t>> ancestors;
      std::vector<std::span<const uint32_t>> branches;
      std::vector<SeenPositions> seen;
      for (size_t t = 0; t < n_tokens; ++t) {
        // The parent is mostly the token before, so that some branches are long.
        const size_t parent = random() % 4 == 0 && t > 0 ? random() % t : t - 1;
        ancestors.push_back(t == 0 ? std::vector<uint32_t>() : ancestors[parent]);
        ancestors.back().push_back(slots[n_prefix + t]);
      }
      for (const auto& own : ancestors) {
        branches.emplace_back(own);
        seen.push_back({0, n_prefix + own.size()});
      }
      const size_t token_floats = n_heads * kHeadSize;
      const std::vector<float> q = random_floats(n_tokens * token_floats, 78, 3);
      std::vector<float> together(q.size(), -3), alone(q.size(), -3);
      std::vector<float> workspace(attention_tile_floats(kHeadSize));
      AttentionTile tile{attention_of(q, n_heads, kHeadSize, k, v),
                         seen,
                         branches,
                         token_floats,
                         token_floats,
                         workspace.data()};
      tile.first.prefix = prefix;
      tile.first.out = together.data();
      table().attention_tile(tile);
      for (size_t t = 0; t < n_tokens; ++t) {
        Attention one = tile.first;
        one.q = q.data() + t * token_floats;
        one.own = branches[t];
        one.out = alone.data() + t * token_floats;
        table().attention(one);
      }
      ASSERT_EQ(std::memcmp(together.data(), alone.data(), q.size() * sizeof(float)), 0)
          << n_prefix << " " << n_tokens << " " << n_heads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionTileTest, every_implementation(), implementation_name);

}  // namespace
}  // namespace troika::kernels
