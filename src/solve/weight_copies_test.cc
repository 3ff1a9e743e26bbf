#include "solve/weight_copies.h"

#include <gtest/gtest.h>

#include <string>

#include "schedule/cut/plan_cuts.h"
#include "solve/cuts/cuts_test_support.h"
#include "solve/lane_memory.h"

namespace troika::solve {
namespace {

using plan::Phase;

// Lane 1 is a device that runs all products of prompts.
plan::Plan plan_on_device(const char* kind, const char* device, plan::Prefill prefill) {
  plan::Plan plan = plan_with(2);
  plan.lanes[1].kind = kind;
  plan.lanes[1].device = device;
  plan.prefill = prefill;
  for (const char* name : {"qkv", "ffn"}) {
    plan.placements.push_back({name, 0, 1, plan::Placement::kAllBlocks, Phase::kPrompt});
  }
  return plan;
}

struct Sizes {
  size_t n_weights = 0, n_rows = 0, file_bytes = 0, float_bytes = 0, exact_bytes = 0;
};

// Returns the sizes of the matrices of a model's blocks.
Sizes sizes_of(const CutModel& m) {
  Sizes sizes;
  for (const lanes::Subgraph& subgraph : m.subgraphs) {
    if (subgraph.is_head()) continue;
    for (const model::Op& op : subgraph.ops) {
      if (op.kind != model::OpKind::kLinear) continue;
      const weights::Matrix& matrix = m.weights.matrix(op.weight);
      const auto n_rows = static_cast<size_t>(matrix.n_rows);
      const auto k = static_cast<size_t>(matrix.row_length);
      sizes.n_weights += n_rows * k;
      sizes.n_rows += n_rows;
      sizes.file_bytes += matrix.bytes();
      // Levels of q8_0, with a scale for each 32 or for each row.
      sizes.float_bytes += n_rows * k + n_rows * k / 32 * sizeof(float);
      sizes.exact_bytes += n_rows * k + n_rows * sizeof(float);
    }
  }
  return sizes;
}

size_t held_on_device(const CutModel& m, const plan::Plan& plan) {
  return held_by_lanes(m.blueprint, m.weights, plan).at(1);
}

TEST(WeightCopies, N9_AStaticRuntimeHoldsACopyForEachNumberOfTokens) {
  const CutModel m;
  const Sizes sizes = sizes_of(m);
  plan::Plan plan = plan_on_device("openvino", "CPU", plan::Prefill::kInt8);
  ASSERT_EQ(plan.prompt_shapes.size(), 3u);
  const size_t ours = sizes.n_weights + sizes.n_rows * sizeof(float);
  EXPECT_EQ(held_on_device(m, plan), ours + 3 * sizes.n_weights);
  // Parts of 64 tokens have graphs already, those of 96 do not.
  plan.lengths = {plan::length_from_text("1:64,0:26")};
  EXPECT_EQ(held_on_device(m, plan), ours + 3 * sizes.n_weights);
  plan.lengths = {plan::length_from_text("1:96,0:26")};
  EXPECT_EQ(held_on_device(m, plan), ours + 4 * sizes.n_weights);
  plan.lengths.clear();
  plan.prefill = plan::Prefill::kBf16;
  EXPECT_EQ(held_on_device(m, plan), 8 * sizes.n_weights);
}

TEST(WeightCopies, N9_AnOpenclLaneHoldsPanelsOfTheFormsThatItMultiplies) {
  const CutModel m;
  const Sizes sizes = sizes_of(m);
  plan::Plan plan = plan_on_device("opencl", "0", plan::Prefill::kInt8);
  EXPECT_EQ(held_on_device(m, plan), sizes.exact_bytes);
  plan.prefill = plan::Prefill::kF32;
  EXPECT_EQ(held_on_device(m, plan), sizes.float_bytes);
  // Steps in floats take the same panels.
  plan.activations = plan::Activations::kF32;
  plan.placements = {{"qkv", 0, 1}, {"ffn", 0, 1}};
  EXPECT_EQ(held_on_device(m, plan), sizes.float_bytes);
  plan.prefill = plan::Prefill::kInt8;
  EXPECT_EQ(held_on_device(m, plan), sizes.float_bytes + sizes.exact_bytes);
  const size_t without_table = held_on_device(m, plan);
  plan.placements.push_back({"embed", 0, 1});
  EXPECT_GT(held_on_device(m, plan), without_table);
  plan.lanes[1] = {};
  EXPECT_EQ(held_on_device(m, plan), sizes.file_bytes);
}

// A device that is faster at everything gets as many blocks as its graphs leave room for.
class FastDevice : public TimeModel {
 public:
  double task_us(int lane, const lanes::Subgraph&, TaskShape shape, int) const override {
    return (lane == 1 ? 1.0 : 10.0) * shape.n_present;
  }
  double handover_us(int, int) const override { return 0.0; }
};

TEST(WeightCopies, N9_PlacesCutsAndLengthsKeepWithinWhatGraphsTake) {
  const CutModel m;
  const Sizes sizes = sizes_of(m);
  plan::Plan plan = plan_on_device("openvino", "CPU", plan::Prefill::kInt8);
  plan.step_shapes = {1};
  size_t held_before = 0;
  for (const size_t limit : {sizes.n_weights, 3 * sizes.n_weights, 12 * sizes.n_weights}) {
    plan.lanes[1].memory_limit = limit;
    CutRequest request = cut_request_of(plan);
    request.cuts = cut_rules(plan);
    request.place.prefill = plan.prefill;
    request.place.has_rules_of_phases = true;
    request.place.forced = {{"", 0, 0, plan::Placement::kAllBlocks, Phase::kStep}};
    request.lengths = length_rules(plan, request.cuts);
    const CutChoice choice = solve_cuts(m.blueprint, m.weights, plan, FastDevice(), request);
    plan::Plan chosen = plan;
    chosen.placements = choice.places.placements;
    chosen.cuts = choice.cuts;
    chosen.lengths = choice.lengths;
    const size_t held = held_on_device(m, chosen);
    EXPECT_LE(held, limit);
    EXPECT_GT(held, held_before);
    held_before = held;
  }
  EXPECT_GT(held_before, 4 * sizes.n_weights);
}

}  // namespace
}  // namespace troika::solve
