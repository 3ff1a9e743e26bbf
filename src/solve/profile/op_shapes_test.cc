#include "solve/profile/op_shapes.h"

#include <gtest/gtest.h>

#include <set>

#include "forge/hollow.h"
#include "model/architecture.h"

namespace troika::solve {
namespace {

using model::OpKind;

struct Hollow {
  explicit Hollow(const char* name)
      : model(model::get_known(name), "q4_0"),
        file(model.open()),
        blueprint(model::read(file)),
        store(file, blueprint) {}

  forge::HollowModel model;
  gguf::File file;
  model::Blueprint blueprint;
  weights::Store store;
};

TEST(OpShapes, OpsOfFewModelsAreTimedAsWhatTheyComeTo) {
  const std::set<OpKind> rare = {OpKind::kRoute, OpKind::kExpertLinear, OpKind::kExpertSum,
                                 OpKind::kSoftCap, OpKind::kSigmoidGate};
  for (const char* name : {"tiny-qwen2moe", "tiny-mixtral", "tiny-gemma2"}) {
    const Hollow hollow(name);
    for (const plan::OpShape& shape :
         model_shapes(hollow.blueprint, hollow.store, tensor::Type::kF16)) {
      EXPECT_FALSE(rare.contains(shape.op)) << name << ": " << model::op_kind_name(shape.op);
    }
  }
}

TEST(OpShapes, ExpertsThatSomeTokenTakesStandBelowEachOther) {
  const Hollow hollow("tiny-qwen3moe");  // has 8 experts of width 256, of which a token takes 3
  for (const model::Op& op : hollow.blueprint.ops) {
    if (op.kind != OpKind::kExpertLinear || op.takes_parts) continue;
    const auto shape_for = [&](int n_tokens) {
      return shape_of(hollow.blueprint, op, hollow.store, tensor::Type::kF16,
                      {plan::Phase::kPrompt, n_tokens}, n_tokens);
    };
    EXPECT_EQ(shape_for(1).n_rows, 3 * 256);
    EXPECT_EQ(shape_for(1).n_tokens, 1);
    EXPECT_EQ(shape_for(512).n_rows, 8 * 256);
    EXPECT_EQ(shape_for(512).n_tokens, 512 * 3 / 8);
  }
}

TEST(OpShapes, AWindowBoundsTheContext) {
  const Hollow hollow("tiny-gemma2");  // has windows of 64 in the first of two blocks
  for (const model::Op& op : hollow.blueprint.ops) {
    if (op.kind != OpKind::kAttention) continue;
    const plan::OpShape shape = shape_of(hollow.blueprint, op, hollow.store, tensor::Type::kF16,
                                         {plan::Phase::kStep, 32}, 500);
    EXPECT_EQ(shape.context, op.layer % 2 == 0 ? 64 + 32 : 500);
  }
}

}  // namespace
}  // namespace troika::solve
