// Tests which token counts a virtual phone has executables for.
#include "machines/phone_shapes.h"

#include <gtest/gtest.h>

#include <vector>

namespace troika::machines {
namespace {

plan::Plan shapes_for(int context, prepare::Options options = {}) {
  plan::Plan plan;
  plan.context = context;
  set_phone_shapes(options, &plan);
  return plan;
}

TEST(PhoneShapes, EveryContextHasAChunk) {
  using Chunks = std::vector<int>;
  EXPECT_EQ(shapes_for(1).prompt_shapes, Chunks{32});
  EXPECT_EQ(shapes_for(16).prompt_shapes, Chunks{32});
  EXPECT_EQ(shapes_for(17).prompt_shapes, Chunks{32});
  EXPECT_EQ(shapes_for(32).prompt_shapes, Chunks{32});
  EXPECT_EQ(shapes_for(33).prompt_shapes, (Chunks{32, 64}));
  EXPECT_EQ(shapes_for(4096).prompt_shapes, (Chunks{32, 64, 128, 256, 512}));
  EXPECT_EQ(shapes_for(1 << 30).prompt_shapes, (Chunks{32, 64, 128, 256, 512}));
}

}  // namespace
}  // namespace troika::machines
