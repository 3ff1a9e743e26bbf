#include "base/median.h"

#include <gtest/gtest.h>

namespace troika {
namespace {

TEST(Median, IsTheMiddleOrBetweenTheMiddleTwo) {
  EXPECT_EQ(median({}), 0.0);
  EXPECT_EQ(median({3.0}), 3.0);
  EXPECT_EQ(median({9.0, -1.0, 2.0}), 2.0);
  EXPECT_EQ(median({8.0, 1.0, 2.0, 5.0}), 3.5);
}

TEST(Percentile, IsTheValueOfTheNearestRank) {
  EXPECT_EQ(percentile({}, 0.5), 0.0);
  EXPECT_EQ(percentile({3.0}, 0.99), 3.0);
  const auto down_from = [](int n) {
    std::vector<double> values;
    for (int i = n; i > 0; --i) values.push_back(i);
    return values;
  };
  EXPECT_EQ(percentile(down_from(10), 0.0), 1.0);
  EXPECT_EQ(percentile(down_from(10), 0.5), 5.0);
  EXPECT_EQ(percentile(down_from(10), 0.9), 9.0);
  EXPECT_EQ(percentile(down_from(10), 1.0), 10.0);
  // The last hundredth of few values is the last one.
  EXPECT_EQ(percentile(down_from(8), 0.9), 8.0);
  EXPECT_EQ(percentile(down_from(60), 0.99), 60.0);
  EXPECT_EQ(percentile(down_from(200), 0.99), 198.0);
}

}  // namespace
}  // namespace troika
