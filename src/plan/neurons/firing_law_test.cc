#include "plan/neurons/firing_law.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace troika::plan {
namespace {

TEST(FiringLaw, SharesHaveTheWantedMean) {
  for (const double power : {0.0, 0.7, 3.0, 10.0}) {
    for (const double live : {0.001, 0.15, 0.6}) {
      for (const int n : {1, 100, 14336}) {
        const std::vector<double> shares =
            firing_shares({.live_share = live, .power = power, .most = 0.784}, n);
        const double mean = std::accumulate(shares.begin(), shares.end(), 0.0) / n;
        EXPECT_NEAR(mean, live, 1e-9 * live) << power << " " << n;
        EXPECT_TRUE(std::is_sorted(shares.rbegin(), shares.rend()));
        EXPECT_LE(shares.front(), 0.784);
      }
    }
  }
}

TEST(FiringLaw, NoneFiresMoreOftenThanAnyMay) {
  for (const double share : firing_shares({.live_share = 1.0, .power = 0.7, .most = 0.98}, 10)) {
    EXPECT_NEAR(share, 0.98, 1e-12);
  }
  for (const double share : firing_shares({.live_share = 0.0}, 10)) EXPECT_EQ(share, 0.0);
}

}  // namespace
}  // namespace troika::plan
