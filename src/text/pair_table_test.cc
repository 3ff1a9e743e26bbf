#include "text/pair_table.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace troika::text {
namespace {

constexpr uint64_t kGoldenFactor = 0x9e3779b97f4a7c15u;

// Returns the pair that one multiplication by kGoldenFactor and one shift turn into `hash`.
uint64_t pair_of_fixed_hash(uint64_t hash) {
  uint64_t inverse = kGoldenFactor;  // is right in 3 bits, and each round doubles them
  for (int i = 0; i < 5; ++i) inverse *= 2 - kGoldenFactor * inverse;
  return (hash ^ hash >> 32) * inverse;
}

// Returns pairs that would all have one place if the hash were the same in each process.
std::vector<uint64_t> hostile_pairs(size_t n) {
  std::vector<uint64_t> pairs;
  for (size_t i = 0; i < n; ++i) pairs.push_back(pair_of_fixed_hash(uint64_t{i} << 24));
  return pairs;
}

// Returns how many of the pairs have the most frequent of 4096 places.
size_t most_in_a_place(const HashOfPairs& hash, const std::vector<uint64_t>& pairs) {
  std::vector<size_t> counts(4096);
  for (const uint64_t pair : pairs) ++counts[hash(pair) % counts.size()];
  return *std::max_element(counts.begin(), counts.end());
}

TEST(HashOfPairs, NobodyKnowsTwoOfThem) {
  const HashOfPairs one, other;
  EXPECT_NE(one(1), other(1));
  EXPECT_NE(one(1), one(2));
}

// 16 pairs are expected in each place, and 64 in none.
TEST(HashOfPairs, SpreadsPairsWhoeverChoseThem) {
  std::vector<uint64_t> near, high;
  for (uint64_t i = 0; i < 65536; ++i) {
    near.push_back((i / 256) << 32 | i % 256);
    high.push_back(i << 48);
  }
  for (int round = 0; round < 8; ++round) {
    const HashOfPairs hash;
    EXPECT_LT(most_in_a_place(hash, hostile_pairs(65536)), 64u);
    EXPECT_LT(most_in_a_place(hash, near), 64u);
    EXPECT_LT(most_in_a_place(hash, high), 64u);
  }
}

// Quadratic time would mean minutes.
TEST(PairTable, FindsHostilePairs) {
  const std::vector<uint64_t> pairs = hostile_pairs(size_t{1} << 20);
  const auto left = [&](size_t i) { return static_cast<Token>(pairs[i] >> 32); };
  const auto right = [&](size_t i) { return static_cast<Token>(pairs[i]); };
  PairTable table;
  table.reserve(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    table.insert(left(i), right(i), {static_cast<uint32_t>(i), static_cast<Token>(i)});
    table.insert(left(i), right(i), {0, 0});
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    ASSERT_EQ(table.find(left(i), right(i)).priority, i);
    ASSERT_EQ(table.find(left(i), right(i)).token, static_cast<Token>(i));
    ASSERT_EQ(table.find(left(i), right(i) ^ 1).priority, Join::kNever);
  }
}

}  // namespace
}  // namespace troika::text
