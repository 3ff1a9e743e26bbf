#include "forge/hollow.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "forge/synth.h"
#include "model/architecture.h"
#include "tests/support/temp_folder.h"
#include "weights/store.h"

namespace troika::forge {
namespace {

TEST(HollowModel, V4_EveryKnownModelHasABlueprintWithoutWeights) {
  for (const model::KnownModel& known : model::known_models()) {
    const HollowModel hollow(known, "q4_0");
    const gguf::File file = hollow.open();
    const model::Blueprint blueprint = model::read(file);
    const weights::Store store(file, blueprint);
    // All parameters are multiplied in a pass, but for norms and what is looked up. Of experts only
    // those that are used count.
    uint64_t n_elements = 0;
    for (const model::Op& op : blueprint.ops) {
      if (op.kind != model::OpKind::kLinear && op.kind != model::OpKind::kExpertLinear) continue;
      const weights::Matrix& matrix = store.matrix(op.weight);
      n_elements += static_cast<uint64_t>(matrix.n_rows) * static_cast<uint64_t>(matrix.row_length);
    }
    const auto n_embedding = static_cast<uint64_t>(known.n_vocab) * known.width;
    const uint64_t n_expected =
        model::n_parameters(known) - (known.tied_embeddings ? 0 : n_embedding);
    EXPECT_LE(n_elements, n_expected) << known.name;
    EXPECT_GT(static_cast<double>(n_elements), 0.995 * static_cast<double>(n_expected))
        << known.name;
  }
}

TEST(HollowModel, TheBlueprintIsThatOfTheFileWithWeights) {
  const test::TempFolder folder;
  for (const model::KnownModel& known : model::known_models()) {
    if (!known.name.starts_with("tiny-")) continue;
    const std::string name(known.name);
    const std::string path = folder.file("model.gguf");
    synth({.like = name, .output = path, .type = "q8_0"});
    const gguf::File whole = gguf::File::open(path);
    const HollowModel hollow(model::get_known(name), "q8_0");
    const gguf::File empty = hollow.open();
    const model::Blueprint a = model::read(whole);
    const model::Blueprint b = model::read(empty);
    ASSERT_EQ(a.ops.size(), b.ops.size()) << name;
    ASSERT_EQ(a.weights.size(), b.weights.size()) << name;
    for (size_t i = 0; i < a.ops.size(); ++i) {
      EXPECT_EQ(a.ops[i].kind, b.ops[i].kind);
      EXPECT_EQ(a.ops[i].inputs, b.ops[i].inputs);
      EXPECT_EQ(a.ops[i].weight, b.ops[i].weight);
    }
    EXPECT_EQ(weights::Store(whole, a).total_bytes(), weights::Store(empty, b).total_bytes())
        << name;
    EXPECT_EQ(weights::Store(whole, a).bytes_per_step(), weights::Store(empty, b).bytes_per_step())
        << name;
    EXPECT_EQ(a.ropes, b.ropes) << name;
  }
}

TEST(HollowModel, OfExpertsAStepReadsThoseItUses) {
  const HollowModel hollow(model::get_known("mixtral-8x7b"), "q4_0");
  const gguf::File file = hollow.open();
  const model::Blueprint blueprint = model::read(file);
  const weights::Store store(file, blueprint);
  EXPECT_EQ(blueprint.n_experts, 8);
  EXPECT_EQ(blueprint.n_experts_used, 2);
  EXPECT_GT(store.total_bytes(), size_t{26'000'000'000});
  EXPECT_LT(store.bytes_per_step(), store.total_bytes() / 3);
  EXPECT_GT(store.bytes_per_step(), store.total_bytes() / 4);
}

TEST(HollowModel, UnknownTypesAreRefused) {
  EXPECT_THROW(HollowModel(model::get_known("tiny-llama"), "q3_x"), UsageError);
}

}  // namespace
}  // namespace troika::forge
