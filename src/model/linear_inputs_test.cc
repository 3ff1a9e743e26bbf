#include "model/linear_inputs.h"

#include <gtest/gtest.h>

namespace troika::model {
namespace {

// Returns a blueprint with the values 0 x, 1 normed, 2 q, 3 k, 4 attended, 5 up, 6 logits.
Blueprint blueprint() {
  Blueprint b;
  for (const int width : {8, 8, 8, 4, 8, 12, 20}) b.values.push_back({"", width, false});
  b.values[6].per_output = true;
  for (const char* name : {"q", "k", "o", "up", "down", "head"}) {
    b.weights.push_back({name, 0, 8, 8, 8, 0});
  }
  const auto linear = [&](ValueId in, ValueId out, WeightId weight) {
    Op op{OpKind::kLinear};
    op.layer = 0, op.inputs[0] = in, op.output = out, op.weight = weight;
    b.ops.push_back(op);
  };
  linear(1, 2, 0);
  linear(1, 3, 1);
  Op attention{OpKind::kAttention};
  attention.output = 4;
  b.ops.push_back(attention);
  linear(4, 2, 2);
  linear(1, 5, 3);  // reads the value that q and k read before attention
  linear(5, 1, 4);
  linear(1, 6, 5);  // is the head
  return b;
}

TEST(LinearInputs, AreListedOnceWithTheProductsThatReadThem) {
  const std::vector<LinearInput> inputs = linear_inputs(blueprint());
  ASSERT_EQ(inputs.size(), 4u);
  EXPECT_EQ(inputs[0].name, "q");
  EXPECT_EQ(inputs[0].weights, (std::vector<WeightId>{0, 1}));
  EXPECT_EQ(inputs[0].width, 8);
  EXPECT_EQ(inputs[1].name, "o");
  EXPECT_EQ(inputs[2].name, "up");
  EXPECT_EQ(inputs[3].name, "down");
  EXPECT_EQ(inputs[3].width, 12);
}

}  // namespace
}  // namespace troika::model
