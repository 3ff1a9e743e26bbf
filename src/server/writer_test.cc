#include "server/writer.h"

#include <gtest/gtest.h>

#include <set>

namespace troika::server {
namespace {

TEST(SignsOfLife, OfStreamsThatBeginTogetherAreSpreadOverTheTimeBetweenThem) {
  constexpr uint32_t kTogether = 20;
  constexpr int kParts = 10;
  for (const uint32_t first : {0u, 7u, 1000u, 4'000'000'000u}) {
    std::set<int> parts;
    for (uint32_t i = 0; i < kTogether; ++i) {
      parts.insert(static_cast<int>(spread_share(first + i) * kParts));
    }
    EXPECT_EQ(parts.size(), kParts) << first;
    EXPECT_EQ(*parts.begin(), 0) << first;
    EXPECT_EQ(*parts.rbegin(), kParts - 1) << first;
  }
}

}  // namespace
}  // namespace troika::server
