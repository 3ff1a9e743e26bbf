#include "lanes/opencl/products.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "lanes/opencl/test_support.h"

namespace troika::lanes::opencl {
namespace {

// Products that are made already still find their levels where there is no memory for longer ones.
TEST(OpenclLevelPool, KeepsWhatItHasWhereMoreFails) {
  constexpr size_t kK = 256, kTokens = 16;
  LimitedMemory memory(kTokens * kK * sizeof(float));
  LevelPool pool(&memory, /*has_quads=*/false);
  pool.reserve(kTokens, kK);
  std::byte* const levels = pool.levels();
  ASSERT_NE(levels, nullptr);
  const size_t bytes = pool.bytes();
  EXPECT_THROW(pool.reserve(2 * kTokens, kK), Error);
  EXPECT_EQ(pool.levels(), levels);
  EXPECT_EQ(pool.bytes(), bytes);
  EXPECT_NO_THROW(pool.reserve(kTokens, kK));
}

}  // namespace
}  // namespace troika::lanes::opencl
