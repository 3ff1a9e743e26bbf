#include "solve/place.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "forge/hollow.h"
#include "model/architecture.h"
#include "model/known.h"
#include "schedule/cut/placement_classes.h"
#include "schedule/cut/plan_cuts.h"
#include "tests/support/temp_folder.h"

namespace troika::solve {
namespace {

// Lane 0 is slow at everything. Lane 1 is fast at products of many tokens and bad at attention.
class MadeUpTimes : public TimeModel {
 public:
  explicit MadeUpTimes(double handover) : handover_(handover) {}
  double task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape, int) const override {
    const int n_tokens = shape.n_present;
    const bool is_product = !subgraph.is_dynamic() && std::string(subgraph.name) != "embed";
    if (lane == 0) return is_product ? 10.0 * n_tokens : 5.0 * n_tokens;
    return is_product ? 20.0 + 1.0 * n_tokens : 50.0 * n_tokens;
  }
  double handover_us(int from, int to) const override { return from == to ? 0.0 : handover_; }

 private:
  double handover_;
};

std::vector<plan::PlannedLane> two_lanes(uint64_t limit_of_second = plan::PlannedLane::kNoLimit) {
  std::vector<plan::PlannedLane> lanes(2);
  lanes[0].kind = "slow";
  lanes[1].kind = "matrix";
  lanes[1].memory_limit = limit_of_second;
  return lanes;
}

// Returns a request for steps of one token, and for prompts of all other counts.
PlaceRequest request_of(std::initializer_list<int> counts) {
  PlaceRequest request;
  for (const int n : counts) {
    request.shapes.push_back({n == 1 ? plan::Phase::kStep : plan::Phase::kPrompt, n});
  }
  return request;
}

struct Model {
  Model() : hollow(model::get_known("tiny-llama"), "q8_0") {}
  forge::HollowModel hollow;
  gguf::File file = hollow.open();
  model::Blueprint blueprint = model::read(file);
  weights::Store weights{file, blueprint};
};

plan::Plan plan_of(const PlacementChoice& choice) {
  plan::Plan plan;
  plan.lanes = two_lanes();
  plan.placements = choice.placements;
  return plan;
}

TEST(Place, N10_PromptAndGenerationGetTheLaneThatSuitsEach) {
  const Model m;
  const auto choice =
      place(m.blueprint, m.weights, two_lanes(), MadeUpTimes(1.0), request_of({1, 8, 128}));
  const plan::Plan plan = plan_of(choice);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kStep, 128}, 0), 1);
  EXPECT_EQ(plan.lane_of("qkv", {plan::Phase::kStep, 8}, 2), 1);
  EXPECT_EQ(plan.lane_of("attention", {plan::Phase::kStep, 128}, 0), 0);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kStep, 1}, 0), 0);
  EXPECT_EQ(plan.lane_of("head", {plan::Phase::kStep, 1}), 0);
}

// Eight lanes have more placements than can be tried.
TEST(Place, N10_ManyLanesAreSearchedWithinABound) {
  const Model m;
  std::vector<plan::PlannedLane> lanes(8, two_lanes()[1]);
  const auto choice =
      place(m.blueprint, m.weights, lanes, MadeUpTimes(1.0), request_of({1, 8, 128}));
  ASSERT_EQ(choice.shapes.size(), 3u);
  for (const ShapeChoice& shape : choice.shapes) {
    EXPECT_TRUE(shape.is_bounded);
    for (const double us : shape.single_lane_us) EXPECT_LE(shape.us, us);
  }
  // It is as good as the best of two lanes, because the others are like the second.
  const auto two =
      place(m.blueprint, m.weights, two_lanes(), MadeUpTimes(1.0), request_of({1, 8, 128}));
  for (size_t i = 0; i < two.shapes.size(); ++i) {
    EXPECT_FALSE(two.shapes[i].is_bounded);
    EXPECT_EQ(choice.shapes[i].us, two.shapes[i].us);
  }
}

TEST(Place, TheChoiceIsNeverSlowerThanASingleLane) {
  const Model m;
  for (const double handover : {0.0, 10.0, 1e3, 1e6}) {
    const auto choice =
        place(m.blueprint, m.weights, two_lanes(), MadeUpTimes(handover), request_of({1, 32, 512}));
    ASSERT_EQ(choice.shapes.size(), 3u);
    for (const ShapeChoice& phase : choice.shapes) {
      for (const double us : phase.single_lane_us) EXPECT_LE(phase.us, us);
    }
  }
  // If a handover costs more than everything else, there is none.
  const auto dear = place(m.blueprint, m.weights, two_lanes(), MadeUpTimes(1e6), request_of({512}));
  for (const auto& [kind, lane] : dear.shapes[0].lanes) {
    EXPECT_EQ(lane, dear.shapes[0].lanes.at("ffn")) << kind;
  }
}

TEST(Place, RulesOfTheUserHold) {
  const Model m;
  PlaceRequest request = request_of({1, 128});
  request.forced = {{"ffn", 0, 0}};
  const auto choice = place(m.blueprint, m.weights, two_lanes(), MadeUpTimes(1.0), request);
  EXPECT_EQ(plan_of(choice).lane_of("ffn", {plan::Phase::kStep, 128}, 0), 0);
  EXPECT_EQ(plan_of(choice).lane_of("qkv", {plan::Phase::kStep, 128}, 0), 1);
  EXPECT_EQ(choice.shapes[1].lanes.at("ffn"), 0);
}

// Lane 1 is made for prompts in int8, and bad at steps in float.
class TimesByPhase : public TimeModel {
 public:
  double task_us(int lane, const lanes::Subgraph&, TaskShape shape, int) const override {
    const double us = shape.n_present;
    if (lane == 0) return us;
    return shape.built.phase == plan::Phase::kPrompt ? 0.1 * us + 4.0 : 3.0 * us;
  }
  double handover_us(int, int) const override { return 0.0; }
};

TEST(Place, H11_PhaseAndLengthDecide) {
  const Model m;
  PlaceRequest request;
  request.shapes = {{plan::Phase::kStep, 1},
                    {plan::Phase::kStep, 64},
                    {plan::Phase::kPrompt, 2},
                    {plan::Phase::kPrompt, 64}};
  request.has_rules_of_phases = true;
  const auto choice = place(m.blueprint, m.weights, two_lanes(), TimesByPhase(), request);
  const plan::Plan plan = plan_of(choice);
  for (const char* kind : {"qkv", "attention", "ffn"}) {
    for (const plan::Shape& shape : request.shapes) {
      const bool is_long_prompt = shape == plan::Shape{plan::Phase::kPrompt, 64};
      EXPECT_EQ(plan.lane_of(kind, shape, 1), is_long_prompt ? 1 : 0)
          << kind << ", " << phase_name(shape.phase) << " of " << shape.n_rows;
    }
  }
}

TEST(Place, RulesMayHoldForOnePhaseEach) {
  const Model m;
  PlaceRequest request = request_of({1, 8, 128});
  request.shapes.push_back({plan::Phase::kStep, 128});
  request.has_rules_of_phases = true;
  request.forced = {{"qkv", 0, 0, plan::Placement::kAllBlocks, plan::Phase::kStep}};
  const auto choice = place(m.blueprint, m.weights, two_lanes(), MadeUpTimes(1.0), request);
  const plan::Plan plan = plan_of(choice);
  EXPECT_EQ(plan.lane_of("qkv", {plan::Phase::kStep, 128}, 0), 0);
  EXPECT_EQ(plan.lane_of("qkv", {plan::Phase::kPrompt, 128}, 0), 1);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kStep, 128}, 0), 1);
  for (const plan::Placement& rule : plan.placements) {
    EXPECT_EQ(rule.phase.has_value(), rule.subgraph != "head") << rule.subgraph;
  }
}

// Returns the bytes of the FFN of one block, which includes the output product of attention.
size_t ffn_bytes(const Model& m) {
  size_t bytes = 0;
  for (const lanes::Subgraph& subgraph : schedule::cut_into_subgraphs(m.blueprint)) {
    if (std::string(subgraph.name) == "ffn" && subgraph.block() == 0) {
      bytes += weight_bytes(subgraph, m.weights);
    }
  }
  return bytes;
}

TEST(Place, N9_AFullLaneKeepsTheHeaviestAndTheRestGoesElsewhere) {
  const Model m;
  // Lane 1 has room for the FFN of two of the three blocks.
  const size_t limit = 3 * ffn_bytes(m) - 1;
  const auto choice =
      place(m.blueprint, m.weights, two_lanes(limit), MadeUpTimes(1.0), request_of({128}));
  const plan::Plan plan = plan_of(choice);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kStep, 128}, 0), 1);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kStep, 128}, 1), 1);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kStep, 128}, 2), 0);
  const std::vector<size_t> held = held_by_lanes(m.blueprint, m.weights, plan);
  EXPECT_LE(held[1], limit);
  EXPECT_GT(held[1], limit / 2);
}

TEST(Place, N9_LimitsHoldForRulesOfTheUserToo) {
  const Model m;
  const size_t limit = 2 * ffn_bytes(m);
  PlaceRequest request = request_of({1, 128});
  request.forced = {{"ffn", 2, 1}, {"", 0, 0}};
  const auto choice = place(m.blueprint, m.weights, two_lanes(limit), MadeUpTimes(1.0), request);
  plan::Plan plan = plan_of(choice);
  plan.lanes = two_lanes(limit);
  plan.step_shapes = {1};
  plan.prompt_shapes = {128};
  EXPECT_EQ(held_by_lanes(m.blueprint, m.weights, plan)[1], limit);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kPrompt, 128}, 1), 1);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kPrompt, 128}, 2), 0);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kStep, 1}, 0), 0);
  const std::vector<std::string> sentences = broken_rules(m.blueprint, plan, request.forced);
  ASSERT_EQ(sentences.size(), 1u);
  EXPECT_NE(sentences[0].find("'ffn' in 2 of 3 blocks"), std::string::npos) << sentences[0];
  EXPECT_EQ(sentences[0].find(" 0.00 "), std::string::npos) << sentences[0];  // a few kilobytes
  plan.placements = request.forced;
  EXPECT_TRUE(broken_rules(m.blueprint, plan, request.forced).empty());
}

// Returns what the plan's check says of the places that are chosen for it.
std::string check_of_places(const Model& m, const PlaceRequest& request, plan::Plan* plan) {
  plan->placements =
      place(m.blueprint, m.weights, plan->lanes, MadeUpTimes(1.0), request).placements;
  try {
    schedule::check_placements(*plan, m.blueprint);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// Lane 1 would be the faster one for all passes but the narrowest.
TEST(Place, ASubgraphHasOneClassInAllShapesThatComputeAlike) {
  const Model m;
  plan::Plan plan;
  plan.lanes = {{}, {}};
  plan.lanes[1].kind = "opencl";
  plan.lanes[1].device = "0";
  plan.activations = plan::Activations::kF32;
  plan.prefill = plan::Prefill::kF32;
  PlaceRequest request;
  request.shapes = plan.body_shapes();
  EXPECT_NE(check_of_places(m, request, &plan).find("how many tokens"), std::string::npos);
  request.class_of = [&plan](int lane, plan::Phase phase) {
    return schedule::class_of(plan, lane, phase);
  };
  EXPECT_EQ(check_of_places(m, request, &plan), "accepted");
  for (const plan::Shape& shape : request.shapes) {
    EXPECT_EQ(plan.lane_of("ffn", shape, 0), 1) << shape.n_rows;
    EXPECT_EQ(plan.lane_of("attention", shape, 0), 0) << shape.n_rows;
  }
  // A block for which the lane has no memory is elsewhere in every shape.
  plan.lanes[1].memory_limit = 3 * ffn_bytes(m) - 1;
  EXPECT_EQ(check_of_places(m, request, &plan), "accepted");
  for (const plan::Shape& shape : request.shapes) {
    EXPECT_EQ(plan.lane_of("ffn", shape, 0), 1) << shape.n_rows;
    EXPECT_EQ(plan.lane_of("ffn", shape, 2), 0) << shape.n_rows;
  }
  // Prompts in int8 have the bits of cores on both lanes; steps are floats.
  plan.prefill = plan::Prefill::kInt8;
  request.shapes = plan.body_shapes();
  request.has_rules_of_phases = true;
  EXPECT_EQ(check_of_places(m, request, &plan), "accepted");
}

// Returns what a pass takes when the plan's rules are followed.
double us_by_rules(const Model& m, const plan::Plan& plan, const TimeModel& times, int n_rows) {
  const plan::Shape shape = {plan::Phase::kPrompt, n_rows};
  double us = 0.0;
  int before = -1;
  for (const lanes::Subgraph& subgraph : schedule::cut_into_subgraphs(m.blueprint)) {
    const bool is_head = std::string(subgraph.name) == "head";
    const plan::Shape built = is_head ? plan::Shape() : shape;
    const int lane = plan.lane_of(subgraph.name, built, subgraph.block());
    us += times.task_us(lane, subgraph, built, n_rows);
    if (before >= 0) us += times.handover_us(before, lane);
    before = lane;
  }
  return us;
}

TEST(Place, N9_WhatIsPromisedKnowsOfTheBlocksThatDoNotFit) {
  const Model m;
  const MadeUpTimes times(1.0);
  for (const bool is_forced : {false, true}) {
    PlaceRequest request = request_of({128});
    if (is_forced) request.forced = {{"ffn", 0, 1}, {"", 0, 0}};
    const size_t limit = 2 * ffn_bytes(m);
    const auto tight = place(m.blueprint, m.weights, two_lanes(limit), times, request);
    const auto wide = place(m.blueprint, m.weights, two_lanes(), times, request);
    EXPECT_DOUBLE_EQ(tight.shapes[0].us, us_by_rules(m, plan_of(tight), times, 128));
    EXPECT_GT(tight.shapes[0].us, wide.shapes[0].us);
  }
}

TEST(Place, RulesForSeveralOutputsHoldBesideThatForOne) {
  const Model m;
  PlaceRequest request = request_of({1, 128});
  request.forced = {{"head", 8, 1}, {"head", 0, 0}};
  const plan::Plan plan =
      plan_of(place(m.blueprint, m.weights, two_lanes(), MadeUpTimes(1.0), request));
  EXPECT_EQ(plan.lane_of("head", {plan::Phase::kStep, 1}), 0);
  EXPECT_EQ(plan.lane_of("head", {plan::Phase::kStep, 8}), 1);
  // The first rule that matches decides.
  request.forced = {{"head", 0, 0}, {"head", 8, 1}};
  const plan::Plan first =
      plan_of(place(m.blueprint, m.weights, two_lanes(), MadeUpTimes(1.0), request));
  EXPECT_EQ(first.lane_of("head", {plan::Phase::kStep, 8}), 0);
}

// Both lanes refuse products of prompts, as devices may whose graphs are for steps alone.
class RefusingTimes : public MadeUpTimes {
 public:
  RefusingTimes() : MadeUpTimes(1.0) {}
  double task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape,
                 int context) const override {
    const bool is_refused =
        shape.built.phase == plan::Phase::kPrompt && std::string(subgraph.name) == "ffn";
    if (is_refused) return std::numeric_limits<double>::infinity();
    return MadeUpTimes::task_us(lane, subgraph, shape, context);
  }
};

TEST(Place, WhatEveryLaneRefusesIsASentence) {
  const Model m;
  const auto place_all = [&](std::initializer_list<int> counts, bool has_classes) {
    PlaceRequest request = request_of(counts);
    if (has_classes) {
      request.class_of = [](int lane, plan::Phase) { return std::to_string(lane); };
    }
    return place(m.blueprint, m.weights, two_lanes(), RefusingTimes(), request);
  };
  EXPECT_TRUE(std::isfinite(place_all({1}, false).shapes[0].us));
  for (const bool has_classes : {false, true}) {
    const std::string message = test::message_of<Error>([&] { place_all({1, 128}, has_classes); });
    EXPECT_NE(message.find("128 tokens (phase prompt)"), std::string::npos) << message;
  }
}

TEST(Place, NoLaneWithRoomIsASentence) {
  const Model m;
  std::vector<plan::PlannedLane> lanes = two_lanes(1000);
  lanes[0].memory_limit = 1000;
  EXPECT_THROW(place(m.blueprint, m.weights, lanes, MadeUpTimes(1.0), request_of({128})), Error);
}

}  // namespace
}  // namespace troika::solve
