#include "solve/profile/profile_storage.h"

#include <gtest/gtest.h>

#include <set>

namespace troika::solve {
namespace {

// What a shallow queue has just read must not be what a deeper one begins with.
TEST(ProfileStorage, EachCombinationReadsBlocksOfItsOwn) {
  const StorageOptions options;
  std::set<uint64_t> seeds;
  size_t n = 0;
  for (const uint64_t block : options.block_bytes) {
    for (const int depth : options.depths) {
      for (const uint64_t range : options.range_bytes) {
        for (const bool is_random : {false, true}) {
          seeds.insert(storage_seed({block, range, is_random, depth}));
          ++n;
        }
      }
    }
  }
  EXPECT_EQ(seeds.size(), n);
}

}  // namespace
}  // namespace troika::solve
