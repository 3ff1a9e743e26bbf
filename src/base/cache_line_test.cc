#include "base/cache_line.h"

#include <gtest/gtest.h>

namespace troika {
namespace {

TEST(CacheLine, IsTheFirstThatBeginsAtOrBehindAValue) {
  alignas(kCacheLineBytes) float values[64];
  float* const line = values + 16;
  EXPECT_EQ(at_cache_line(values), values);
  for (float* from = values + 1; from <= line; ++from) EXPECT_EQ(at_cache_line(from), line);
  EXPECT_EQ(at_cache_line(line + 1), line + 16);
}

}  // namespace
}  // namespace troika
