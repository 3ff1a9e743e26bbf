#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention_test_support.h"

namespace troika::kernels {
namespace {

class AttentionTest : public EveryImplementation {
 protected:
  struct Case {
    size_t head_size = 64, n_heads = 1, n_positions = 1;
    Type k_type = Type::kF32, v_type = Type::kF32;
    float soft_cap = 0;
    float q_scale = 1;
  };

  static std::vector<float> attend(const Table& table, const Case& c, const TestCache& k,
                                   const TestCache& v, size_t n_prefix, bool in_segments = false) {
    const std::vector<uint32_t> slots = shuffled_slots(c.n_positions);
    const std::vector<float> q = random_floats(c.n_heads * c.head_size, 77, c.q_scale);
    std::vector<float> out(c.n_heads * c.head_size, -3);
    Attention args = attention_of(q, c.n_heads, c.head_size, k, v);
    args.prefix = std::span(slots).first(n_prefix);
    args.own = std::span(slots).subspan(n_prefix);
    args.scale = 1 / std::sqrt(static_cast<float>(c.head_size));
    args.soft_cap = c.soft_cap;
    args.out = out.data();
    if (in_segments) {
      const size_t stride = c.n_heads * attention_part_floats(args.head_size);
      std::vector<float> parts(n_attention_segments(args) * stride);
      // Segments may be computed in any order.
      for (size_t s = n_attention_segments(args); s-- > 0;) {
        table.attention_segment(args, s, parts.data() + s * stride);
      }
      table.attention_merge(args, parts.data());
    } else {
      table.attention(args);
    }
    return out;
  }

  void compare(const Case& c) {
    const TestCache k(reference::kTable, c.k_type, c.head_size, c.n_positions, 1000);
    const TestCache v(reference::kTable, c.v_type, c.head_size, c.n_positions, 9000);
    const std::vector<float> mine = attend(table(), c, k, v, c.n_positions / 2);
    const std::vector<float> theirs = attend(reference::kTable, c, k, v, c.n_positions / 2);
    for (size_t i = 0; i < mine.size(); ++i) {
      // Errors of scores are relative to q * k, and enter the weights through exp.
      ASSERT_NEAR(mine[i], theirs[i], 3e-6 * (1 + c.q_scale))
          << "head size " << c.head_size << " heads " << c.n_heads << " positions " << c.n_positions
          << " " << tensor::type_name(c.k_type) << " " << tensor::type_name(c.v_type);
    }
  }
};

TEST_P(AttentionTest, AgreesWithTheReferenceForEveryCacheType) {
  for (Type k_type : kCacheTypes) {
    for (Type v_type : kCacheTypes) {
      for (size_t n : {1, 5, 64, 65, 200, 700}) {
        compare({.n_heads = 3, .n_positions = n, .k_type = k_type, .v_type = v_type});
      }
    }
  }
}

TEST_P(AttentionTest, AgreesForEveryHeadSizeAndGroup) {
  for (size_t head_size : {8, 16, 24, 40, 64, 72, 80, 96, 100, 128, 256, 5, 1, 33, 39}) {
    compare({.head_size = head_size, .n_heads = 2, .n_positions = 70});
    compare({.head_size = head_size, .n_heads = 2, .n_positions = 70, .v_type = Type::kF16});
    compare({.head_size = head_size, .n_heads = 9, .n_positions = 70, .k_type = Type::kF16});
  }
  for (size_t n_heads = 0; n_heads < 18; ++n_heads) {
    compare({.n_heads = n_heads, .n_positions = 66, .k_type = Type::kF16});
  }
}

TEST_P(AttentionTest, SoftCapAndLargeScores) {
  compare({.n_heads = 2, .n_positions = 130, .soft_cap = 5});
  compare({.n_heads = 2, .n_positions = 130, .soft_cap = 50, .q_scale = 20});
  compare({.n_heads = 2, .n_positions = 130, .q_scale = 100});
}

TEST_P(AttentionTest, NothingVisibleGivesZeros) {
  Case c{.n_heads = 3, .n_positions = 0};
  const TestCache cache(reference::kTable, Type::kF32, 64, 1, 1);
  EXPECT_EQ(attend(table(), c, cache, cache, 0), std::vector<float>(3 * 64));
}

// By the numerics law, neither the place where the two lists meet nor the grouping of heads changes
// a bit.
TEST_P(AttentionTest, BitsDoNotDependOnHowListsAndHeadsAreDivided) {
  for (Type type : kCacheTypes) {
    Case c{.n_heads = 7, .n_positions = 150, .k_type = type, .v_type = type};
    const TestCache k(reference::kTable, type, 64, 150, 1), v(reference::kTable, type, 64, 150, 5);
    const std::vector<float> whole = attend(table(), c, k, v, 150);
    for (size_t n_prefix : {0, 1, 63, 64, 65, 149}) {
      EXPECT_EQ(attend(table(), c, k, v, n_prefix), whole) << n_prefix;
    }
    for (size_t n_heads = 1; n_heads < 7; ++n_heads) {
      c.n_heads = n_heads;
      const std::vector<float> part = attend(table(), c, k, v, 150);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << n_heads;
    }
  }
}

// Workers may share the segments of a long context, which changes no bit.
TEST_P(AttentionTest, SegmentsTogetherEqualTheWhole) {
  for (size_t head_size : {64, 80, 100, 5}) {
    for (size_t n :
         {size_t{0}, size_t{1}, kAttentionSegment, kAttentionSegment + 1, size_t{1300}}) {
      const Case c{.head_size = head_size, .n_heads = 9, .n_positions = n, .k_type = Type::kF16};
      const TestCache k(table(), c.k_type, head_size, n, 1), v(table(), c.v_type, head_size, n, 5);
      const std::vector<float> whole = attend(table(), c, k, v, n);
      const std::vector<float> parted = attend(table(), c, k, v, n, true);
      EXPECT_EQ(whole, parted) << head_size << " " << n;
    }
  }
}

// What is no number must show, or a model that is damaged goes on writing.
TEST_P(AttentionTest, WhatIsNoNumberReachesTheOutput) {
  constexpr size_t kSlot = 3;
  for (const size_t n : {size_t{1} + kSlot, size_t{70}, kAttentionSegment + 9}) {
    const Case c{.n_heads = 2, .n_positions = n};
    const float infinity = std::numeric_limits<float>::infinity();
    for (const bool is_key : {true, false}) {
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
        TestCache k(reference::kTable, c.k_type, c.head_size, n, 1);
        TestCache v(reference::kTable, c.v_type, c.head_size, n, 5);
        TestCache& spoiled = is_key ? k : v;
        const std::vector<float> row(c.head_size, is_key ? bad : bad - bad);
        std::byte* const slot = spoiled.pages[0].data() + kSlot * spoiled.view.slot_bytes;
        std::memcpy(slot + spoiled.view.slot_bytes / kKvHeads, row.data(), sizeof(float) * 64);
        for (const bool in_segments : {false, true}) {
          for (const float out : attend(table(), c, k, v, n / 2, in_segments)) {
            ASSERT_TRUE(std::isnan(out)) << n << " " << is_key << " " << bad << " " << in_segments;
          }
        }
      }
    }
  }
}

TEST_P(AttentionTest, StoredRowsShowWhatTheyCannotHold) {
  for (const Type type : {Type::kF16, Type::kQ8_0}) {
    for (const float large : {1e9f, -1e9f, 8.4e6f}) {
      std::vector<float> x = random_floats(64, 3);
      x[40] = large;
      std::vector<std::byte> row(tensor::row_bytes(type, x.size()));
      table().store_kv(type, x.data(), row.data(), x.size());
      std::vector<float> loaded(x.size());
      table().load_kv(type, row.data(), loaded.data(), loaded.size());
      EXPECT_FALSE(std::isfinite(loaded[40])) << tensor::type_name(type) << " " << large;
      EXPECT_TRUE(std::isfinite(loaded[0]));
    }
  }
}

TEST_P(AttentionTest, StoredRowsEqualTheReference) {
  for (Type type : kCacheTypes) {
    for (size_t n : {32, 64, 96, 160}) {
      std::vector<float> x = random_floats(n, 3);
      x[1] = 1e9f;
      x[2] = -1e-9f;
      std::vector<std::byte> mine(tensor::row_bytes(type, n)), theirs(mine.size());
      table().store_kv(type, x.data(), mine.data(), n);
      reference::kTable.store_kv(type, x.data(), theirs.data(), n);
      EXPECT_EQ(mine, theirs) << tensor::type_name(type);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionTest, every_implementation(), implementation_name);

}  // namespace
}  // namespace troika::kernels
