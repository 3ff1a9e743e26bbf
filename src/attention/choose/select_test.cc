#include "attention/choose/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/cpu_features.h"
#include "kernels/choose.h"

namespace troika::attention {
namespace {

// Returns the k largest in the plain way: sorted by value, the earlier first among equals.
std::vector<uint32_t> plain_largest(const std::vector<float>& values, size_t k) {
  std::vector<uint32_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return values[a] > values[b]; });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

// Returns the k largest as every implementation of kernels selects them.
std::vector<uint32_t> largest(const std::vector<float>& values, size_t k) {
  std::vector<uint32_t> chosen;
  for (const kernels::Implementation& implementation : kernels::implementations()) {
    if (!detect_cpu_features().has_all(implementation.needs)) continue;
    std::vector<uint32_t> found(values.size());
    select_largest(kernels::choose(detect_cpu_features(), implementation.name).table, values, k,
                   found.data());
    found.resize(k);
    if (!chosen.empty()) {
      EXPECT_EQ(found, chosen) << implementation.name;
    }
    chosen = found;
  }
  return chosen;
}

TEST(Select, S2TheLargestAreThoseThatSortingFinds) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const size_t n : {1, 2, 17, 100, 1000}) {
    for (const int n_different : {0, 1, 5}) {  // 0 makes all different
      std::vector<float> values(n);
      for (float& value : values) {
        value = n_different == 0 ? normal(random)
                                 : static_cast<float>(static_cast<int>(random()) % n_different);
      }
      for (const size_t k : {size_t{0}, size_t{1}, n / 3, n / 2, n}) {
        EXPECT_EQ(largest(values, k), plain_largest(values, k)) << n << ", " << k;
      }
    }
  }
}

TEST(Select, S2EdgesOfTheFloats) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {0.0f, -inf, -0.0f, inf, -1.0f, 1e-45f, 3e38f};
  EXPECT_EQ(largest(values, 1), (std::vector<uint32_t>{3}));
  EXPECT_EQ(largest(values, 2), (std::vector<uint32_t>{3, 6}));
  EXPECT_EQ(largest(values, 4), (std::vector<uint32_t>{0, 3, 5, 6}));  // takes 0 before -0
  EXPECT_EQ(largest(values, 6), (std::vector<uint32_t>{0, 2, 3, 4, 5, 6}));
  EXPECT_EQ(largest(values, 7).size(), 7u);
}

// Values of any size beside each other, where steps in proportion to counts come no nearer.
TEST(Select, S2TheLargestOfValuesOfEverySize) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> exponent(-120.0f, 120.0f);
  std::vector<float> values(700);
  for (float& value : values) {
    value = std::exp2(exponent(random)) * (random() % 2 == 0 ? 1.0f : -1.0f);
  }
  for (const size_t k : {1, 2, 77, 350, 699}) {
    EXPECT_EQ(largest(values, k), plain_largest(values, k)) << k;
  }
  // One is far above the others, and most are alike.
  std::fill(values.begin(), values.end(), 1e-30f);
  for (size_t i = 0; i < values.size(); i += 10) values[i] = -static_cast<float>(i) * 1e-35f;
  values[500] = 3e38f;
  for (const size_t k : {1, 2, 77, 631, 640, 699}) {
    EXPECT_EQ(largest(values, k), plain_largest(values, k)) << k;
  }
}

// Those that are no number come before infinity, the earlier first.
TEST(Select, S2WhatIsNoNumberIsLargest) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {-inf, nan, inf, nan, 2.0f, -inf, nan};
  EXPECT_EQ(largest(values, 1), (std::vector<uint32_t>{1}));
  EXPECT_EQ(largest(values, 3), (std::vector<uint32_t>{1, 3, 6}));
  EXPECT_EQ(largest(values, 4), (std::vector<uint32_t>{1, 2, 3, 6}));
  EXPECT_EQ(largest(values, 5), (std::vector<uint32_t>{1, 2, 3, 4, 6}));
  EXPECT_EQ(largest(values, 6), (std::vector<uint32_t>{0, 1, 2, 3, 4, 6}));
  EXPECT_EQ(largest(values, 7).size(), 7u);
  const std::vector<float> numbers = {-inf, 1.0f, -inf, 0.0f};
  EXPECT_EQ(largest(numbers, 3), (std::vector<uint32_t>{0, 1, 3}));
}

TEST(Select, CountsOfShares) {
  EXPECT_EQ(count_of_share(0.2, 0), 0u);
  EXPECT_EQ(count_of_share(0.2, 1), 1u);
  EXPECT_EQ(count_of_share(0.2, 11), 3u);
  EXPECT_EQ(count_of_share(1.0, 11), 11u);
  EXPECT_EQ(count_of_share(1e-9, 11), 1u);
}

}  // namespace
}  // namespace troika::attention
