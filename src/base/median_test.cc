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

}  // namespace
}  // namespace troika
