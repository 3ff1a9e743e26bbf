#include "base/threads/crowd.h"

#include <gtest/gtest.h>

namespace troika {
namespace {

// Record runs of 10 ms: crowded() those in which all workers but one slept all the time, quiet()
// those in which none slept.
void crowded(Crowd& crowd) { crowd.record(1e4, 1e4 * (crowd.n_active() - 1)); }
void quiet(Crowd& crowd) { crowd.record(1e4, 0.0); }

TEST(Crowd, ShrinksDownToOne) {
  Crowd crowd(8);
  int n = 0;
  while (crowd.n_active() > 1 && n < 100) {
    const int before = crowd.n_active();
    crowded(crowd);
    EXPECT_LT(crowd.n_active(), before);
    ++n;
  }
  EXPECT_LE(n, 8);
  crowd.record(1e4, 1e4);
  EXPECT_EQ(crowd.n_active(), 1);
}

TEST(Crowd, UnequalPartsAreNoCrowd) {
  Crowd crowd(4);
  for (int i = 0; i < 20; ++i) crowd.record(1e4, 0.3 * 4e4);
  EXPECT_EQ(crowd.n_active(), 4);
  for (int i = 0; i < 20; ++i) crowd.record(500, 1900);  // is too short to have lost a core
  EXPECT_EQ(crowd.n_active(), 4);
}

TEST(Crowd, GrowsBackWhenItIsQuiet) {
  Crowd crowd(4);
  for (int i = 0; i < 10; ++i) crowded(crowd);
  EXPECT_EQ(crowd.n_active(), 1);
  for (int i = 0; i < 100; ++i) quiet(crowd);
  EXPECT_EQ(crowd.n_active(), 4);
}

TEST(Crowd, TrialsInVainBecomeRare) {
  Crowd crowd(2);
  int n_trials = 0;
  for (int i = 0; i < 10000; ++i) {
    if (crowd.n_active() == 2) {
      ++n_trials;
      crowded(crowd);
    } else {
      quiet(crowd);
    }
  }
  EXPECT_GE(n_trials, 15);
  EXPECT_LE(n_trials, 40);
  // Soon after the other programs have gone, all workers work again.
  for (int i = 0; i < 600; ++i) quiet(crowd);
  EXPECT_EQ(crowd.n_active(), 2);
  crowded(crowd);
  for (int i = 0; i < 8; ++i) quiet(crowd);
  EXPECT_EQ(crowd.n_active(), 2);
}

}  // namespace
}  // namespace troika
