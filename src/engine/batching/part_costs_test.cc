#include "engine/batching/part_costs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace troika::engine {
namespace {

constexpr int kSmallest = 32, kMost = 512;
constexpr double kMostMs = 150.0;

// A machine on which a part of a prompt takes this long; no two parts take quite the same.
struct Law {
  double row_ms, thousand_ms;
  uint64_t n_parts = 0;

  double ms(int n_rows, int n_before) {
    const double noise = 0.97 + 0.06 * (random_bits(7, n_parts++) % 1000) / 1000.0;
    return noise * (4.0 + row_ms * n_rows + thousand_ms * n_rows * n_before / 1000.0);
  }
};

// Reads a prompt in parts, and returns the longest time of a part that was longer than the
// smallest.
double longest_part(PartCosts& costs, Law& law, int n_before, int n_prompt, int* n_parts) {
  double longest = 0.0;
  *n_parts = 0;
  while (n_before < n_prompt) {
    const int rows =
        std::min(costs.rows_within(kMostMs, n_before, kSmallest, kMost), n_prompt - n_before);
    const double ms = law.ms(rows, n_before);
    costs.learn(rows, n_before, ms);
    if (rows > kSmallest) longest = std::max(longest, ms);
    n_before += rows;
    ++*n_parts;
  }
  return longest;
}

// Attention of small models takes more than all else where much stands before a part.
TEST(PartCosts, PartsDeepInATextEndInTimeToo) {
  Law law{0.5, 0.4};
  PartCosts costs;
  int n_parts = 0;
  for (int i = 0; i < 4; ++i) {
    EXPECT_LE(longest_part(costs, law, 0, 8000, &n_parts), 1.25 * kMostMs) << i;
    EXPECT_LE(longest_part(costs, law, 0, 300, &n_parts), 1.25 * kMostMs) << i;
  }
  // A part takes most of its time: the whole takes 4,000 ms for rows and 12,800 for attention.
  longest_part(costs, law, 0, 8000, &n_parts);
  EXPECT_LE(n_parts, 16'800 / (0.7 * kMostMs));
  // A prompt whose beginning is known already starts deep in its text.
  EXPECT_LE(longest_part(costs, law, 6000, 8000, &n_parts), 1.25 * kMostMs);
}

TEST(PartCosts, WhereOnlyDeepPartsAreSeenTheyGrowTooAndEndInTime) {
  Law law{0.5, 0.4};
  PartCosts costs;
  int n_parts = 0;
  EXPECT_LE(longest_part(costs, law, 4000, 8000, &n_parts), 1.5 * kMostMs);
  EXPECT_LT(n_parts, 4000 / kSmallest);
}

// Where attention costs nothing, depth changes nothing.
TEST(PartCosts, KnowsNothingAtFirstAndNothingOfDepthWithoutAttention) {
  Law law{0.5, 0.0};
  PartCosts costs;
  EXPECT_EQ(costs.ms(64, 1000), 0.0);
  EXPECT_EQ(costs.rows_within(kMostMs, 0, kSmallest, kMost), kSmallest);
  int n_parts = 0;
  longest_part(costs, law, 0, 8000, &n_parts);
  EXPECT_NEAR(costs.ms(256, 8000), costs.ms(256, 0), 0.15 * costs.ms(256, 0));
}

// The time of answers that take steps beside a part is none of the part's.
TEST(PartCosts, RowsOfOtherTextsMakeThoseOfAPromptNoDearer) {
  const Law law{0.5, 0.1};
  PartCosts costs;
  Law alone = law;
  int n_parts = 0;
  longest_part(costs, alone, 0, 8000, &n_parts);
  const double shallow_ms = costs.ms(64, 0), deep_ms = costs.ms(64, 4000);
  for (int i = 0; i < 20; ++i) {
    PassRows rows;
    rows.add(32, 8000);
    rows.add(64, 100 * i);
    costs.learn(rows, 4.0 + law.row_ms * rows.n() + law.thousand_ms * rows.thousands_of_pairs());
  }
  EXPECT_NEAR(costs.ms(64, 0), shallow_ms, 0.25 * shallow_ms);
  EXPECT_NEAR(costs.ms(64, 4000), deep_ms, 0.25 * deep_ms);
}

// One part that was interrupted for long does not make all that come small.
TEST(PartCosts, AnInterruptedPartIsForgotten) {
  Law law{0.5, 0.1};
  PartCosts costs;
  int n_parts = 0, n_after = 0;
  longest_part(costs, law, 0, 8000, &n_parts);
  costs.learn(128, 4000, 5000.0);
  longest_part(costs, law, 0, 8000, &n_after);
  EXPECT_LE(n_after, 2 * n_parts);
}

}  // namespace
}  // namespace troika::engine
