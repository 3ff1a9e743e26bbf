// Tests which activations come before the experts of a mixture.
#include "model/mixtures.h"

#include <gtest/gtest.h>

namespace troika::model {
namespace {

// Returns two layers that use the same values, as those of models do.
Blueprint two_mixtures() {
  enum : ValueId { kX, kNormed, kLogits, kRoutes, kGate, kUp, kDown, kSum };
  Blueprint b;
  WeightId next = 0;
  for (int layer = 0; layer < 2; ++layer) {
    const auto push = [&](OpKind kind, ValueId input, ValueId other, ValueId output, bool weighs) {
      Op op{kind};
      op.layer = layer;
      op.inputs = {input, other, kNone};
      op.output = output;
      if (weighs) op.weight = next++;
      b.ops.push_back(op);
    };
    push(OpKind::kRmsNorm, kX, kNone, kNormed, true);
    push(OpKind::kLinear, kNormed, kNone, kLogits, true);
    push(OpKind::kRoute, kLogits, kNone, kRoutes, false);
    push(OpKind::kExpertLinear, kNormed, kRoutes, kGate, true);
    push(OpKind::kExpertLinear, kNormed, kRoutes, kUp, true);
    push(OpKind::kGate, kGate, kUp, kGate, false);
    push(OpKind::kExpertLinear, kGate, kRoutes, kDown, true);
    push(OpKind::kExpertSum, kDown, kRoutes, kSum, false);
    push(OpKind::kAdd, kX, kSum, kX, false);
  }
  return b;
}

TEST(Mixtures, P10KnowTheirRouterItsNormAndTheirProducts) {
  const Blueprint b = two_mixtures();
  const std::vector<Mixture> all = mixtures(b);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].layer, 0);
  EXPECT_EQ(all[0].norm, 0);
  EXPECT_EQ(all[0].router, 1);
  EXPECT_EQ(all[0].route, 2);
  EXPECT_EQ(all[0].products, (std::vector<WeightId>{2, 3, 4}));
  EXPECT_EQ(all[1].layer, 1);
  EXPECT_EQ(all[1].norm, 9);
  EXPECT_EQ(all[1].router, 10);
  EXPECT_EQ(all[1].products, (std::vector<WeightId>{7, 8, 9}));
}

TEST(Mixtures, P10ARouterThatReadsNoNormHasNone) {
  Blueprint b = two_mixtures();
  b.ops[0].kind = OpKind::kAdd;
  EXPECT_EQ(mixtures(b)[0].norm, kNone);
  EXPECT_EQ(mixtures(Blueprint()).size(), 0u);
}

}  // namespace
}  // namespace troika::model
