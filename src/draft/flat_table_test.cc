#include "draft/flat_table.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace troika::draft {
namespace {

TEST(FlatTable, IsAMap) {
  FlatTable<int> table;
  EXPECT_EQ(table.find(0), nullptr);
  for (int round = 0; round < 2; ++round) {
    std::map<uint64_t, int> map;
    for (uint64_t i = 0; i < 3000; ++i) {
      // Small numbers and such as differ in their upper bits alone.
      const auto number =
          static_cast<uint64_t>(random_unit(static_cast<uint64_t>(round), i) * 2000);
      const uint64_t key = i % 3 == 0 ? number << 40 : number;
      ++table[key];
      ++map[key];
    }
    for (uint64_t number = 0; number < 2000; ++number) {
      for (const uint64_t key : {number, number << 40}) {
        const int* const found = table.find(key);
        const auto at = map.find(key);
        ASSERT_EQ(found != nullptr, at != map.end()) << key;
        if (found == nullptr) continue;
        EXPECT_EQ(*found, at->second) << key;
      }
    }
    table.clear();
    EXPECT_EQ(table.find(map.begin()->first), nullptr);
  }
}

}  // namespace
}  // namespace troika::draft
