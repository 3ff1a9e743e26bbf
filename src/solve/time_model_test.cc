#include "solve/time_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "forge/hollow.h"
#include "model/architecture.h"
#include "model/known.h"
#include "schedule/cut/plan_cuts.h"
#include "schedule/graphs.h"
#include "solve/cuts/solve_cuts.h"
#include "solve/predict_pass.h"
#include "solve/profile/op_shapes.h"

namespace troika::solve {
namespace {

using plan::Phase;
using plan::Shape;

// A model with a profile of cores and of a device of OpenVINO, which takes static graphs of prompts
// alone. An op takes as long as its operations do.
struct ProfiledModel {
  ProfiledModel(const char* name, double host_flops_per_us, double device_flops_per_us)
      : hollow(model::get_known(name), "q8_0") {
    profile.lanes = {{"host", {}, 1, false}, {"openvino:CPU", {}, 1, true}};
    for (const plan::OpShape& shape : model_shapes(blueprint, weights, tensor::Type::kF16)) {
      const double flops = plan::op_flops(shape);
      profile.ops.push_back({0, shape, 1e-3 + flops / host_flops_per_us, 0.0, 5});
      profile.ops.push_back({1, shape, 1e-3 + flops / device_flops_per_us, 0.0, 5});
      profile.refusals.push_back({1, shape.op, Phase::kStep});
    }
    profile.refusals.push_back({1, model::OpKind::kAttention, Phase::kPrompt});
    plan.prefill = plan::Prefill::kInt8;
    plan.lanes.resize(2);
    plan.lanes[1].kind = "openvino";
    plan.lanes[1].device = "CPU";
    plan.step_shapes = {1, 8};
    plan.output_shapes = {1};
  }
  ProfileTimes times() const { return {profile, plan.lanes, weights, tensor::Type::kF16}; }

  forge::HollowModel hollow;
  gguf::File file = hollow.open();
  model::Blueprint blueprint = model::read(file);
  weights::Store weights{file, blueprint};
  plan::Profile profile;
  plan::Plan plan;
};

TEST(ProfileTimes, StaticGraphsComputeAbsentRowsToo) {
  constexpr Shape kBuilt = {Phase::kPrompt, 512}, kPresent = {Phase::kPrompt, 300};
  const ProfiledModel m("tiny-llama", 1e3, 1e3);
  const ProfileTimes times = m.times();
  for (lanes::Subgraph subgraph : schedule::cut_into_subgraphs(m.blueprint)) {
    if (subgraph.is_dynamic() || subgraph.is_head()) continue;
    const TaskShape some(kBuilt, kPresent.n_rows);
    EXPECT_EQ(times.task_us(0, subgraph, some, 512), times.task_us(0, subgraph, kPresent, 512));
    EXPECT_EQ(times.task_us(1, subgraph, some, 512), times.task_us(1, subgraph, kBuilt, 512));
    subgraph.slice.tokens = {256, lanes::Range::kEnd};
    EXPECT_EQ(times.task_us(1, subgraph, some, 512), times.task_us(1, subgraph, kBuilt, 512));
    // Nothing runs where none of the slice's rows is present.
    EXPECT_EQ(times.task_us(1, subgraph, TaskShape(kBuilt, 200), 512), 0.0);
  }
}

// Where three lanes were not measured together, the slowest two say what all of them get.
TEST(ProfileTimes, LanesThatReadTogetherShareTheBus) {
  ProfiledModel m("tiny-llama", 1e3, 1e3);
  m.plan.lanes.resize(3);
  m.profile.lanes.resize(3);
  m.profile.bandwidth = {{{0}, {10.0}},        {{1}, {10.0}},        {{2}, {10.0}},
                         {{0, 1}, {9.0, 9.0}}, {{0, 2}, {6.0, 6.0}}, {{1, 2}, {8.0, 8.0}}};
  const ProfileTimes times = m.times();
  const std::vector<int> two = {0, 1}, three = {0, 1, 2};
  for (const lanes::Subgraph& subgraph : schedule::cut_into_subgraphs(m.blueprint)) {
    if (subgraph.name != std::string("ffn")) continue;
    const TaskShape step({Phase::kStep, 1});
    const double of_two = times.shared_us(0, two, subgraph, step, 1);
    EXPECT_GT(of_two, 0.0);
    EXPECT_NEAR(times.shared_us(0, three, subgraph, step, 1), of_two * 9.0 / 4.0, 1e-9 * of_two);
    return;
  }
  FAIL();
}

// No rate is known of a device that refuses what reads, but its bytes take the same bus.
TEST(ProfileTimes, ALaneThatWasNotMeasuredSharesTheBusToo) {
  ProfiledModel m("tiny-llama", 1e3, 1e3);
  m.plan.lanes.push_back({});
  m.profile.lanes.resize(3);
  const ProfileTimes times = m.times();
  const std::vector<int> with_device = {0, 1}, of_cores = {0, 2}, all = {0, 1, 2};
  for (const lanes::Subgraph& subgraph : schedule::cut_into_subgraphs(m.blueprint)) {
    if (subgraph.name != std::string("ffn")) continue;
    const TaskShape prompt({Phase::kPrompt, 32});
    const auto us = [&](const std::vector<int>& lanes) {
      return times.shared_us(0, lanes, subgraph, prompt, 32);
    };
    EXPECT_EQ(us(with_device), 0.0);  // nothing at all is known
    m.profile.bandwidth = {{{0}, {10.0}}, {{2}, {8.0}}};
    const double alone = us(with_device);
    EXPECT_GT(alone, 0.0);
    m.profile.bandwidth.push_back({{0, 2}, {9.0, 7.0}});
    // The machine was seen to read 16 GB/s, of which each gets a half.
    EXPECT_NEAR(us(with_device), alone * 10.0 / 16.0, 1e-9 * alone);
    EXPECT_NEAR(us(of_cores), alone * 5.0 / 9.0, 1e-9 * alone);
    EXPECT_NEAR(us(all), alone * 15.0 / 16.0, 1e-9 * alone);
    return;
  }
  FAIL();
}

TEST(PredictPrompt, StaticGraphsTakeAsLongForAShorterPrompt) {
  ProfiledModel m("tiny-llama", 1e9, 1e3);
  m.plan.prompt_shapes = {512};
  m.plan.placements = {{"attention", 0, 0},
                       {"", 0, 1, plan::Placement::kAllBlocks, Phase::kPrompt}};
  const ProfileTimes times = m.times();
  const double whole_us = predict_prompt_us(times, m.plan, m.blueprint, 512);
  EXPECT_NEAR(predict_prompt_us(times, m.plan, m.blueprint, 300) / whole_us, 1.0, 0.01);
  m.plan.placements.clear();
  const double host_us = predict_prompt_us(times, m.plan, m.blueprint, 512);
  EXPECT_LT(predict_prompt_us(times, m.plan, m.blueprint, 300), 0.9 * host_us);
}

bool has_experts(const lanes::Subgraph& subgraph) {
  return std::any_of(subgraph.ops.begin(), subgraph.ops.end(),
                     [](const model::Op& op) { return model::is_of_experts(op.kind); });
}

// However fast the device is, no placement, cut or length gives it experts.
TEST(ProfileTimes, StaticGraphsHaveNoExperts) {
  ProfiledModel m("tiny-qwen3moe", 1e3, 1e4);
  m.plan.prompt_shapes = {32, 64, 128};
  CutRequest request;
  request.place.shapes = m.plan.body_shapes();
  request.place.has_rules_of_phases = true;
  request.cuts.n_lanes = 2;
  request.lengths = length_rules(m.plan, request.cuts);
  EXPECT_FALSE(request.lengths.lengths.empty());
  const CutChoice choice = solve_cuts(m.blueprint, m.weights, m.plan, m.times(), request);
  m.plan.placements = choice.places.placements;
  m.plan.cuts = choice.cuts;
  m.plan.lengths = choice.lengths;
  int n_on_device = 0, n_with_experts = 0;
  for (const Shape& shape : m.plan.body_shapes()) {
    for (const lanes::Subgraph& subgraph : schedule::cut_into_subgraphs(m.blueprint)) {
      const int home = m.plan.lane_of(subgraph.name, shape, subgraph.block());
      for (const schedule::Piece& piece :
           schedule::lower(subgraph, {home, schedule::range_cut_of(m.plan, subgraph, shape)})) {
        n_on_device += piece.lane;
        n_with_experts += has_experts(piece.subgraph) ? 1 : 0;
        EXPECT_FALSE(piece.lane == 1 && has_experts(piece.subgraph)) << piece.subgraph.name;
      }
    }
  }
  EXPECT_GT(n_on_device, 0);
  EXPECT_GT(n_with_experts, 0);
}

}  // namespace
}  // namespace troika::solve
