#include "base/system.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace troika {
namespace {

TEST(System, FiguresAreConsistent) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(available_memory_bytes(), memory_limit_bytes());
  EXPECT_GT(available_memory_bytes(), 0u);
  EXPECT_GE(peak_resident_bytes(), resident_bytes() / 2);
}

TEST(System, TouchedMemoryIsSeen) {
  const size_t before = resident_bytes();
  std::vector<char> memory(64u << 20);
  std::memset(memory.data(), 1, memory.size());
  EXPECT_GE(resident_bytes(), before + (48u << 20));
}

}  // namespace
}  // namespace troika
