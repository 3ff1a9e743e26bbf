// Chooses which neurons are hot (P1).
#include "weights/neurons/hot_neurons.h"

#include <gtest/gtest.h>

namespace troika::weights {
namespace {

TEST(HotCounts, P1AreGroupsOf32NeitherNoneNorAll) {
  EXPECT_EQ(n_hot_neurons(1000, 10), 96);
  EXPECT_EQ(n_hot_neurons(1000, 1), 32);
  EXPECT_EQ(n_hot_neurons(64, 90), 32);
  EXPECT_EQ(n_hot_neurons(33, 50), 32);
  EXPECT_EQ(n_hot_neurons(32, 50), 0);
  EXPECT_EQ(n_hot_neurons(14336, 90), 12896);
}

TEST(HotCounts, P1KeysTellListsApart) {
  const std::vector<std::vector<uint32_t>> one = {{1, 2}, {3}}, other = {{1}, {2, 3}};
  EXPECT_NE(key_of(one), key_of(other));
  EXPECT_EQ(key_of(one), key_of(one));
  EXPECT_NE(key_of({}), 0u);
}

}  // namespace
}  // namespace troika::weights
