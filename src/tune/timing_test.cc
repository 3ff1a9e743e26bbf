#include "tune/timing.h"

#include <gtest/gtest.h>

namespace troika::tune {
namespace {

TEST(Timing, TheLongestPromptIsFoundInAnyOrder) {
  EXPECT_EQ(longest_of({{128, 10.0}, {2048, 300.0}}), (PromptTime{2048, 300.0}));
  EXPECT_EQ(longest_of({{2048, 300.0}, {128, 10.0}, {1, 2.0}}), (PromptTime{2048, 300.0}));
}

TEST(Timing, TheBestOfTwoTurnsIsTakenForEachLength) {
  const std::vector<PromptTime> earlier = {{128, 10.0}, {512, 50.0}};
  const std::vector<PromptTime> later = {{128, 12.0}, {512, 40.0}, {1, 2.0}};
  const std::vector<PromptTime> best = {{128, 10.0}, {512, 40.0}, {1, 2.0}};
  EXPECT_EQ(best_of(earlier, later), best);
  EXPECT_EQ(best_of({}, later), later);
}

}  // namespace
}  // namespace troika::tune
