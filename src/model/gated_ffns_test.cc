// Tests which blocks count as such that can be computed by neuron.
#include "model/gated_ffns.h"

#include <gtest/gtest.h>

namespace troika::model {
namespace {

enum : size_t { kGateOp, kUpOp, kActivationOp, kDownOp };

// Returns a model of one block, whose products are ops of this kind.
Blueprint gated_block(OpKind product) {
  enum : ValueId { kIn, kGateValue, kUpValue, kOut };
  Blueprint b;
  const auto push = [&](OpKind kind, ValueId input, ValueId other, ValueId output,
                        WeightId weight) {
    Op op{kind};
    op.layer = 0;
    op.inputs = {input, other, kNone};
    op.output = output;
    op.weight = weight;
    b.ops.push_back(op);
  };
  push(product, kIn, kNone, kGateValue, 0);
  push(product, kIn, kNone, kUpValue, 1);
  push(OpKind::kGate, kGateValue, kUpValue, kGateValue, kNone);
  push(product, kGateValue, kNone, kOut, 2);
  return b;
}

TEST(GatedFfns, P1AreAGateAnUpAndADownProduct) {
  const std::vector<GatedFfn> blocks = gated_ffns(gated_block(OpKind::kLinear));
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].gate, 0);
  EXPECT_EQ(blocks[0].up, 1);
  EXPECT_EQ(blocks[0].down, 2);
}

// Neurons are computed from the weights alone, so that a bias would be left out.
TEST(GatedFfns, P1WithABiasAreNone) {
  for (const size_t op : {kGateOp, kUpOp, kDownOp}) {
    Blueprint b = gated_block(OpKind::kLinear);
    b.ops[op].bias = 3;
    EXPECT_TRUE(gated_ffns(b).empty()) << op;
    b.ops[op].bias = kNone;
    b.ops[op].keeps_float = true;
    EXPECT_TRUE(gated_ffns(b).empty()) << op;
  }
}

TEST(GatedFfns, P3ExpertsWithABiasAreNone) {
  Blueprint b = gated_block(OpKind::kExpertLinear);
  b.n_experts = 4;
  EXPECT_EQ(expert_ffns(b).size(), 4u);
  for (const size_t op : {kGateOp, kUpOp, kDownOp}) {
    b.ops[op].bias = 3;
    EXPECT_TRUE(expert_ffns(b).empty()) << op;
    b.ops[op].bias = kNone;
  }
}

}  // namespace
}  // namespace troika::model
