#include "engine/memory/device_context.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "prepare/memory.h"
#include "tests/support/temp_folder.h"

namespace troika::engine {
namespace {

constexpr cache::KvShape kShape = {2, 2, 64, tensor::Type::kF16, 1024};

TEST(DeviceContext, IsWholeWhereOnePieceHoldsIt) {
  const size_t all = prepare::cache_bytes(kShape, 1024);
  for (const bool may_be_less : {true, false}) {
    EXPECT_EQ(context_within(kShape, {"opencl:0", all, may_be_less}), 1024);
    EXPECT_EQ(context_within(kShape, {"opencl:0", SIZE_MAX, may_be_less}), 1024);
  }
}

TEST(DeviceContext, IsShorterWhereNobodyAskedForIt) {
  const size_t all = prepare::cache_bytes(kShape, 1024);
  EXPECT_EQ(context_within(kShape, {"opencl:0", all - 1, true}), 768);
  EXPECT_EQ(context_within(kShape, {"opencl:0", all / 4, true}), 256);
}

TEST(DeviceContext, ThatWasAskedForAndDoesNotFitIsASentence) {
  const size_t all = prepare::cache_bytes(kShape, 1024);
  const auto problem = [&](size_t bytes, bool may_be_less) {
    return test::message_of<Error>([&] {
      context_within(kShape, {"opencl:0", bytes, may_be_less});
    });
  };
  const std::string asked = problem(all - 1, false);
  EXPECT_NE(asked.find("‹context› 768 fits, and ‹kv› q8_0"), std::string::npos) << asked;
  EXPECT_NE(asked.find("opencl:0"), std::string::npos) << asked;
  // A device that holds no page of a cache holds no context.
  const std::string none = problem(all / 4 - 1, true);
  EXPECT_NE(none.find("Leave the lane out"), std::string::npos) << none;
}

}  // namespace
}  // namespace troika::engine
