#include "prepare/layouts/weight_strips.h"

#include <gtest/gtest.h>

#include "kernels/choose.h"
#include "tests/support/tiny_engine.h"

namespace troika::prepare {
namespace {

bool has_strip_kernels() {
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  return kernels::find(kernels.table.matmul_q8_strips, tensor::Type::kQ8_0) != nullptr;
}

struct Placed {
  size_t n_in_strips = 0, n_as_in_file = 0;  // count matrices
  std::string text;
};

Placed place(const test_support::TinyModel& model, Load load,
             plan::Prefill prefill = plan::Prefill::kSame,
             plan::Activations activations = plan::Activations::kQ8) {
  Options options;
  options.memory.load = load;
  options.prompts.prefill = prefill;
  options.activations = activations;
  const test_support::TinyEngine tiny(model, options);
  Placed placed;
  placed.text = tiny.engine->loaded().pages.text;
  const weights::Store& weights = tiny.engine->weights();
  for (size_t i = 0; i < tiny.engine->blueprint().weights.size(); ++i) {
    const auto id = static_cast<model::WeightId>(i);
    if (!weights.is_matrix(id)) continue;
    ++(weights.matrix(id).n_strip_rows > 0 ? placed.n_in_strips : placed.n_as_in_file);
  }
  return placed;
}

test_support::TinyModel quantised() {
  test_support::TinyModel model = test_support::small_model("llama");
  model.type = test_support::kQ8_0;
  return model;
}

TEST(WeightStrips, ACopyHasAllProductsInStrips) {
  if (!has_strip_kernels()) GTEST_SKIP() << "these kernels read rows in the order of the file only";
  const Placed copied = place(quantised(), Load::kCopy);
  EXPECT_GT(copied.n_in_strips, 0u);
  EXPECT_LE(copied.n_as_in_file, 1u) << "the embedding table, if it is not the head too";
  EXPECT_NE(copied.text.find("16 rows side by side"), std::string::npos) << copied.text;
}

TEST(WeightStrips, WhatIsMappedOrReadAsFloatsStaysAsItIs) {
  EXPECT_EQ(place(quantised(), Load::kMap).n_in_strips, 0u);
  EXPECT_EQ(
      place(quantised(), Load::kCopy, plan::Prefill::kSame, plan::Activations::kF32).n_in_strips,
      0u);
  EXPECT_EQ(place(quantised(), Load::kCopy, plan::Prefill::kF32).n_in_strips, 0u);
  // Only lanes of OpenCL multiply prompts so, and their cores multiply experts in floats.
  plan::Plan halves;
  halves.prefill = plan::Prefill::kF16;
  EXPECT_FALSE(reads_strips(halves));
  EXPECT_EQ(place(test_support::small_model("llama"), Load::kCopy).n_in_strips, 0u) << "of floats";
}

}  // namespace
}  // namespace troika::prepare
