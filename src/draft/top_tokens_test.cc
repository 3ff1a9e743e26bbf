#include "draft/top_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace troika::draft {
namespace {

std::vector<Token> tokens_of(std::span<const float> logits, size_t k) {
  std::vector<TopToken> top(k);
  top.resize(find_top_tokens(logits, top));
  std::vector<Token> tokens;
  for (const TopToken& t : top) {
    EXPECT_EQ(t.logit, logits[static_cast<size_t>(t.token)]);
    tokens.push_back(t.token);
  }
  return tokens;
}

TEST(TopTokens, AreThoseOfASort) {
  std::mt19937 random(3);
  for (const size_t n : {1u, 5u, 127u, 128u, 129u, 1000u, 4096u}) {
    // With few values, many logits are equal; with many values, few are.
    for (const int n_values : {3, 1 << 20}) {
      std::vector<float> logits(n);
      for (float& x : logits) {
        x = static_cast<float>(random() % static_cast<unsigned>(n_values)) - 1.0f;
      }
      std::vector<Token> sorted(n);
      for (size_t i = 0; i < n; ++i) sorted[i] = static_cast<Token>(i);
      std::stable_sort(sorted.begin(), sorted.end(), [&](Token a, Token b) {
        return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
      });
      for (const size_t k : {1u, 4u, 9u}) {
        const auto n_top = static_cast<long>(std::min(k, n));
        EXPECT_EQ(tokens_of(logits, k), std::vector<Token>(sorted.begin(), sorted.begin() + n_top));
      }
    }
  }
}

TEST(TopTokens, LeavesOutWhatIsNoNumber) {
  std::vector<float> logits(300, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(tokens_of(logits, 4).empty());
  logits[7] = -std::numeric_limits<float>::infinity();
  logits[290] = -3.0f;
  EXPECT_EQ(tokens_of(logits, 4), (std::vector<Token>{290, 7}));
  logits[150] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(tokens_of(logits, 2), (std::vector<Token>{150, 290}));
  EXPECT_TRUE(tokens_of({}, 4).empty());
}

}  // namespace
}  // namespace troika::draft
