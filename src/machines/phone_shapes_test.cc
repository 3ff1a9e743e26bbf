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

solve::ShapeChoice taking_us(double us, plan::Shape shape) {
  solve::ShapeChoice choice;
  choice.shape = shape;
  choice.us = us;
  return choice;
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

TEST(PhoneShapes, AChunkThatStepsHaveTooIsTheBestOfOne) {
  prepare::Options options;
  options.memory.layouts = prepare::Layouts::kSwitch;
  const plan::Plan plan = shapes_for(20, options);
  solve::PlacementChoice choice;
  for (const plan::Shape& shape : plan.body_shapes()) {
    choice.shapes.push_back(taking_us(1.0, shape));
  }
  EXPECT_EQ(best_chunk(choice, plan), 32);
  // Chunks that take the same time are better the longer they are.
  choice.shapes.push_back(taking_us(1.0, {plan::Phase::kPrompt, 64}));
  choice.shapes.push_back(taking_us(1e6, {plan::Phase::kPrompt, 128}));
  EXPECT_EQ(best_chunk(choice, plan), 64);
}

TEST(PhoneShapes, ThereIsAHeadWhereEveryStepIsWider) {
  using Shapes = std::vector<int>;
  prepare::Options options;
  options.phone.small_shapes = {1, 64};
  EXPECT_EQ(shapes_for(4096, options).output_shapes, Shapes{1});
  options.phone.small_shapes = {64, 128};
  EXPECT_EQ(shapes_for(4096, options).output_shapes, Shapes{32});
}

TEST(PhoneShapes, StepsHaveAShapeBesideEveryChunk) {
  using Shapes = std::vector<int>;
  for (const bool is_list : {false, true}) {
    const auto steps_beside = [&](int chunk) {
      prepare::Options options;
      if (is_list) options.phone.prompt_shapes = {chunk};
      if (!is_list) options.prompts.chunk = chunk;
      return shapes_for(4096, options).step_shapes;
    };
    EXPECT_EQ(steps_beside(1), Shapes{1});
    EXPECT_EQ(steps_beside(8), Shapes{1});
    EXPECT_EQ(steps_beside(9), (Shapes{1, 8}));
  }
}

}  // namespace
}  // namespace troika::machines
