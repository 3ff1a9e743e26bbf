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
  std::vector<double> values;
  for (int i = 100; i >= 0; --i) values.push_back(i);
  EXPECT_EQ(percentile(values, 0.0), 0.0);
  EXPECT_EQ(percentile(values, 0.9), 90.0);
  EXPECT_EQ(percentile(values, 1.0), 100.0);
}

}  // namespace
}  // namespace troika
