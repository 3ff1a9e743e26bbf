#include "solve/cuts/solve_cuts.h"

#include <gtest/gtest.h>

#include <map>

#include "schedule/cut/placement_classes.h"
#include "schedule/cut/plan_cuts.h"
#include "schedule/graphs.h"
#include "solve/cuts/cuts_test_support.h"
#include "solve/profile/op_shapes.h"

namespace troika::solve {
namespace {

using plan::Phase;
using plan::Shape;

TEST(SolveCuts, H10_APlanWithCutsIsNeverSlowerThanOneLane) {
  const CutModel m;
  for (int seed = 0; seed < 8 / kOfSeeds; ++seed) {
    for (const int n_lanes : {2, 3}) {
      const RandomTimes times(static_cast<uint64_t>(seed), n_lanes, m.weights);
      const plan::Plan plan = plan_with(n_lanes);
      const CutRequest request = cut_request_of(plan);
      const CutChoice choice = solve_cuts(m.blueprint, m.weights, plan, times, request);
      PlacementChoice uncut = place(m.blueprint, m.weights, plan.lanes, times, request.place);
      ASSERT_EQ(choice.places.shapes.size(), uncut.shapes.size());
      for (size_t i = 0; i < uncut.shapes.size(); ++i) {
        EXPECT_LE(choice.places.shapes[i].us, uncut.shapes[i].us * (1.0 + 1e-12));
        for (const double us : uncut.shapes[i].single_lane_us) {
          EXPECT_LE(choice.places.shapes[i].us, us * (1.0 + 1e-12));
        }
      }
    }
  }
}

// Puts a choice into the plan that it was made for, which must then be one that can be built.
void take_choice(const CutModel& m, const CutChoice& choice, plan::Plan* plan) {
  plan->placements = choice.places.placements;
  plan->cuts = choice.cuts;
  plan->lengths = choice.lengths;
  plan::check_cuts(*plan);
  schedule::check_cuts(*plan, m.blueprint);
}

void expect_plans_that_can_be_built(const char* name, int n_lanes, int n_seeds) {
  const CutModel m(name);
  for (int seed = 0; seed < n_seeds; ++seed) {
    const RandomTimes times(static_cast<uint64_t>(seed), n_lanes, m.weights);
    plan::Plan plan = plan_with(n_lanes);
    CutRequest request = cut_request_of(plan);
    request.lengths.lengths = {96, 160};
    const CutChoice choice = solve_cuts(m.blueprint, m.weights, plan, times, request);
    take_choice(m, choice, &plan);
    for (const plan::TensorCut& cut : choice.cuts) {
      EXPECT_EQ(plan::problem_of(cut, plan.lanes.size()), std::nullopt) << plan::cut_text(cut);
    }
    for (const Shape& shape : plan.body_shapes()) {
      for (const lanes::Subgraph& subgraph : m.subgraphs) {
        const int home = plan.lane_of(subgraph.name, shape, subgraph.block());
        EXPECT_FALSE(
            schedule::lower(subgraph, {home, schedule::range_cut_of(plan, subgraph, shape)})
                .empty());
      }
    }
  }
}

TEST(SolveCuts, WhatIsFoundIsAPlanThatCanBeBuilt) {
  expect_plans_that_can_be_built("tiny-llama", 3, 12 / kOfSeeds);
}

// A product that is small beside those of the same input cannot have their shares: keys and values
// of few heads, routers of experts, and gates of one row.
TEST(SolveCuts, ProductsTooSmallForTheSharesOfOthersStayWhole) {
  expect_plans_that_can_be_built("tiny-qwen2moe", 2, 24 / kOfSeeds);
  expect_plans_that_can_be_built("qwen2-0.5b", 2, 1);
}

TEST(SolveCuts, LanesOfOtherNumericsClassesShareNoRows) {
  const CutModel m;
  const RandomTimes times(4, 2, m.weights);
  const plan::Plan plan = plan_with(2);
  CutRequest request = cut_request_of(plan);
  request.cuts.may_share = [](int, int, Phase) { return false; };
  EXPECT_TRUE(solve_cuts(m.blueprint, m.weights, plan, times, request).cuts.empty());
}

// Heads take time wherever they are, and nothing else does.
class TimesOfHeads : public TimeModel {
 public:
  double task_us(int, const lanes::Subgraph& subgraph, TaskShape, int) const override {
    if (!subgraph.is_dynamic()) return 1e-3;
    return subgraph.slice.heads.within(subgraph.blueprint->n_kv_heads).size();
  }
  double handover_us(int, int) const override { return 0.0; }
};

TEST(SolveCuts, S6_AttentionOfPromptsStaysWholeWhereItsHeadsAreTasks) {
  const CutModel m;
  const plan::Plan plan = plan_with(2);
  CutRequest request = cut_request_of(plan);
  for (const bool has_heads : {false, true}) {
    if (has_heads) request.cuts.may_take = keeps_prompt_attention;
    std::map<Phase, size_t> n_divided;
    const CutChoice choice = solve_cuts(m.blueprint, m.weights, plan, TimesOfHeads(), request);
    for (const plan::TensorCut& cut : choice.cuts) {
      if (cut.subgraph == "attention") ++n_divided[*cut.phase];
    }
    EXPECT_EQ(n_divided[Phase::kStep], plan.step_shapes.size());
    EXPECT_EQ(n_divided[Phase::kPrompt], has_heads ? 0 : plan.prompt_shapes.size());
  }
}

TEST(SolveCuts, TokensStayTogetherWhereTheRulesSaySo) {
  const CutModel m;
  const plan::Plan plan = plan_with(2);
  const auto divides = [&](const CutRequest& request, std::string_view name, int n_seeds) {
    for (int seed = 0; seed < n_seeds; ++seed) {
      const RandomTimes times(static_cast<uint64_t>(seed), 2, m.weights);
      const CutChoice choice = solve_cuts(m.blueprint, m.weights, plan, times, request);
      for (const plan::TensorCut& cut : choice.cuts) {
        if (cut.subgraph == name && !cut.tokens.empty()) return true;
      }
    }
    return false;
  };
  constexpr int kSeeds = 24;  // few of them divide anything
  CutRequest request = cut_request_of(plan);
  EXPECT_TRUE(divides(request, "ffn", kSeeds));
  request.cuts.may_divide_tokens = [](std::string_view subgraph, Shape) {
    return subgraph != "ffn";
  };
  EXPECT_FALSE(divides(request, "ffn", kSeeds / kOfSeeds));
  EXPECT_TRUE(divides(request, "qkv", kSeeds));
}

TEST(SolveCuts, N9_CutsAndLengthsGiveNoWeightsToALaneWithoutRoom) {
  const CutModel m;
  int n_without = 0, n_lengths_without = 0;
  for (int seed = 0; seed < 20; ++seed) {
    for (const bool has_lengths : {false, true}) {
      const RandomTimes times(static_cast<uint64_t>(seed), 2, m.weights);
      plan::Plan plan = plan_with(2);
      plan.lanes[1].memory_limit = 1;
      CutRequest request = cut_request_of(plan);
      if (has_lengths) request.lengths.lengths = {96};
      const CutChoice choice = solve_cuts(m.blueprint, m.weights, plan, times, request);
      take_choice(m, choice, &plan);
      EXPECT_LE(held_by_lanes(m.blueprint, m.weights, plan)[1], plan.lanes[1].memory_limit);
      for (const auto& [subgraph, lane] : choice.without_room) {
        n_without += subgraph.empty() ? 0 : 1;
        n_lengths_without += subgraph.empty() ? 1 : 0;
      }
    }
  }
  EXPECT_GT(n_without, 0);
  EXPECT_GT(n_lengths_without, 0);
}

// Returns the time of a pass in executables of a shape, as the plan divides and places it.
double finished_us(const CutModel& m, const TimeModel& times, const plan::Plan& plan, Shape shape) {
  double us = 0.0;
  int before = -1;
  for (const lanes::Subgraph& subgraph : m.subgraphs) {
    const Shape built = subgraph.is_head() ? Shape() : shape;
    const int context = shape.n_rows == 1 ? PlaceRequest().decode_context : shape.n_rows;
    const int lane = plan.lane_of(subgraph.name, built, subgraph.block());
    us += cut_us(times, subgraph, plan.cuts, built, lane, context);
    if (before >= 0) us += times.handover_us(before, lane);
    before = lane;
  }
  return us;
}

// Returns how many of the choices left some name on several lanes.
int expect_promises_kept(const CutModel& m, const RandomTimes& times, plan::Plan plan) {
  const CutRequest request = cut_request_of(plan);
  const CutChoice choice = solve_cuts(m.blueprint, m.weights, plan, times, request);
  plan::Plan whole = plan;
  take_choice(m, choice, &plan);
  const PlacementChoice uncut = place(m.blueprint, m.weights, whole.lanes, times, request.place);
  whole.placements = uncut.placements;
  int n_divided = 0;
  for (size_t i = 0; i < uncut.shapes.size(); ++i) {
    const ShapeChoice& found = choice.places.shapes[i];
    const double us = finished_us(m, times, plan, found.shape);
    EXPECT_NEAR(found.us, us, 1e-9 * us) << found.shape.n_rows;
    EXPECT_LE(us, finished_us(m, times, whole, found.shape) * (1.0 + 1e-9)) << found.shape.n_rows;
    for (const lanes::Subgraph& subgraph : m.subgraphs) {
      const int lane = plan.lane_of(subgraph.name, found.shape, subgraph.block());
      n_divided += !subgraph.is_head() && lane != found.lanes.at(subgraph.name) ? 1 : 0;
    }
  }
  return n_divided;
}

// Where a lane has no room for all blocks of a name, no cut holds for them, and a plan that was
// chosen by the time of such a cut would be slower than promised, and than one without cuts.
TEST(SolveCuts, N9_APlanTakesTheTimeThatItsChoiceSays) {
  const CutModel m;
  size_t body_bytes = 0;
  for (const lanes::Subgraph& subgraph : m.subgraphs)
    body_bytes += weight_bytes(subgraph, m.weights);
  int n_divided = 0;
  for (int seed = 0; seed < 40 / kOfSeeds; ++seed) {
    const RandomTimes times(static_cast<uint64_t>(seed), 2, m.weights);
    plan::Plan plan = plan_with(2);
    plan.lanes[0].memory_limit = body_bytes * 3 / 5;
    plan.lanes[1].memory_limit = body_bytes * 3 / 5;
    n_divided += expect_promises_kept(m, times, plan);
    expect_promises_kept(m, times, plan_with(2));
  }
  EXPECT_GT(n_divided, 0);
}

// Blocks that memory puts on several lanes count with the times of whole ones, and the others keep
// their cuts. With these times and limits all passes gain by that.
TEST(SolveCuts, N9_BlocksWithoutACutLeaveOthersTheirs) {
  const CutModel m;
  size_t body_bytes = 0;
  for (const lanes::Subgraph& subgraph : m.subgraphs) {
    body_bytes += weight_bytes(subgraph, m.weights);
  }
  const RandomTimes times(1, 2, m.weights);
  plan::Plan plan = plan_with(2);
  plan.lanes[0].memory_limit = plan.lanes[1].memory_limit = body_bytes * 7 / 10;
  const CutRequest request = cut_request_of(plan);
  const CutChoice choice = solve_cuts(m.blueprint, m.weights, plan, times, request);
  const PlacementChoice uncut = place(m.blueprint, m.weights, plan.lanes, times, request.place);
  ASSERT_EQ(choice.places.shapes.size(), uncut.shapes.size());
  for (size_t i = 0; i < uncut.shapes.size(); ++i) {
    EXPECT_LE(choice.places.shapes[i].us, uncut.shapes[i].us * (1.0 + 1e-12)) << i;
  }
  EXPECT_LT(choice.places.shapes[0].us, 0.98 * uncut.shapes[0].us);
}

// Blocks of one name differ where some see a window, and a cut holds for all of them.
TEST(SolveCuts, APlanTakesTheTimeThatItsChoiceSaysWhereBlocksDiffer) {
  const CutModel m("tiny-gemma3");
  for (int seed = 0; seed < 8 / kOfSeeds; ++seed) {
    const RandomTimes times(static_cast<uint64_t>(seed), 2, m.weights);
    expect_promises_kept(m, times, plan_with(2));
  }
}

// Who looks at a plan later learns the same reasons: the same homes have the same cuts beside them.
TEST(SolveCuts, H10_APlanThatIsThereHasTheReasonsForWhichItWasChosen) {
  const CutModel m;
  for (int seed = 0; seed < 8 / kOfSeeds; ++seed) {
    const RandomTimes times(static_cast<uint64_t>(seed), 2, m.weights);
    plan::Plan plan = plan_with(2);
    CutRequest request = cut_request_of(plan);
    request.lengths.lengths = {96, 160};
    const CutChoice choice = solve_cuts(m.blueprint, m.weights, plan, times, request);
    take_choice(m, choice, &plan);
    const CutReasons reasons = cut_reasons(m.blueprint, m.weights, plan, times, request);
    size_t n_alike = 0;
    for (const CutNote& note : choice.notes) {
      for (const CutNote& reason : reasons.notes) {
        if (std::string_view(reason.subgraph) != note.subgraph || reason.shape != note.shape)
          continue;
        EXPECT_EQ(reason.home, note.home);
        EXPECT_EQ(reason.found.whole_us, note.found.whole_us);
        EXPECT_EQ(reason.found.cuts, note.found.cuts);
        EXPECT_EQ(reason.found.is_worthwhile, note.found.is_worthwhile);
        ++n_alike;
      }
    }
    EXPECT_EQ(n_alike, reasons.notes.size());
    ASSERT_EQ(reasons.length_notes.size(), choice.length_notes.size());
    for (size_t i = 0; i < reasons.length_notes.size(); ++i) {
      EXPECT_EQ(reasons.length_notes[i].tokens, choice.length_notes[i].tokens);
      EXPECT_EQ(reasons.length_notes[i].us, choice.length_notes[i].us);
    }
  }
}

TEST(SolveCuts, OneLaneAloneHasNoHelpFromOthers) {
  const CutModel m;
  const RandomTimes times(3, 2, m.weights);
  const plan::Plan plan = plan_with(2);
  const CutRequest request = cut_request_of(plan);
  const CutChoice choice = solve_cuts(m.blueprint, m.weights, plan, times, request);
  const PlacementChoice uncut = place(m.blueprint, m.weights, plan.lanes, times, request.place);
  EXPECT_FALSE(choice.cuts.empty());
  ASSERT_EQ(choice.places.shapes.size(), uncut.shapes.size());
  for (size_t i = 0; i < uncut.shapes.size(); ++i) {
    EXPECT_EQ(choice.places.shapes[i].single_lane_us, uncut.shapes[i].single_lane_us);
  }
}

// Counts what is tried.
class CountedTimes : public RandomTimes {
 public:
  using RandomTimes::RandomTimes;
  double pieces_us(std::span<const schedule::Piece> pieces, int home, TaskShape shape,
                   int context) const override {
    ++n_tried;
    return RandomTimes::pieces_us(pieces, home, shape, context);
  }
  mutable int n_tried = 0;
};

TEST(SolveCuts, ManyLanesMakeNoSearchLong) {
  const CutModel m;
  for (const int n_lanes : {2, 3, 4, 8, 16, 64}) {
    const CountedTimes times(5, n_lanes, m.weights);
    CutRules rules;
    rules.n_lanes = n_lanes;
    const Shape shape = {Phase::kPrompt, 128};
    const CutFound found = search_cuts(times, rules, m.named("ffn"), shape, 0, shape.n_rows);
    EXPECT_LE(times.n_tried, kMostCutsTried / n_lanes + 1) << n_lanes;
    EXPECT_FALSE(found.cuts.empty());
    EXPECT_EQ(found.is_bounded, n_lanes > 4) << n_lanes << " lanes, tried " << times.n_tried;
  }
}

// Threes of lanes that are never tried are ways left out, however few others there are.
TEST(SolveCuts, WhereThreesAreLeftOutNotAllWasTried) {
  const CutModel m;
  const CountedTimes times(5, 5, m.weights);
  CutRules rules;
  rules.n_lanes = 5;
  rules.row_granule = 1 << 20;
  const Shape shape = {Phase::kPrompt, 16};
  EXPECT_TRUE(search_cuts(times, rules, m.named("ffn"), shape, 0, shape.n_rows).is_bounded);
  ASSERT_LT(times.n_tried, kMostCutsTried / rules.n_lanes / 4);
  rules.may_take = [](std::string_view, Shape, int lane) { return lane == 1; };
  EXPECT_FALSE(search_cuts(times, rules, m.named("ffn"), shape, 0, shape.n_rows).is_bounded);
}

TEST(SolveCuts, H5_ALengthIsASumOfPrebuiltCounts) {
  EXPECT_EQ(cheapest_sum(544, {32, 64, 128, 256, 512}, {1, 2, 3, 4, 5}),
            (std::vector<int>{512, 32}));
  EXPECT_EQ(cheapest_sum(64, {32, 64}, {1, 3}), (std::vector<int>{32, 32}));
  EXPECT_EQ(cheapest_sum(0, {32}, {1}), std::vector<int>());
  EXPECT_EQ(cheapest_sum(48, {32}, {1}), std::vector<int>());
}

// Lane 1 multiplies ten times as fast, but only in shapes of 32, 64 and 128 tokens, to which it
// pads.
class FixedShapes : public TimeModel {
 public:
  double task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape, int) const override {
    const int n_computed = lane == 0 ? shape.n_present : shape.built.n_rows;
    const int n = subgraph.slice.tokens.within(n_computed).size();
    if (lane == 0) return 10.0 * n;
    return n <= 32 ? 40.0 : n <= 64 ? 64.0 : 128.0;
  }
  double handover_us(int from, int to) const override { return from == to ? 0.0 : 1.0; }
};

TEST(SolveCuts, H4_TheOddRestGoesToTheLaneThatTakesAnyLength) {
  const CutModel m;
  plan::Plan plan = plan_with(2);
  plan.placements = {{"", 0, 1}};
  LengthRules rules;
  rules.lengths = {70};
  rules.fixed_lanes = {1};
  rules.prebuilt = {32, 64, 128};
  const auto found = find_lengths(FixedShapes(), kinds_of(m.subgraphs, m.weights), plan, rules);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].is_worthwhile);
  EXPECT_EQ(found[0].tokens, (plan::Shares{{1, 64}, {0, 6}}));
  // Padding takes lane 1 128 us for each static subgraph of the body.
  EXPECT_LT(found[0].us, 0.55 * found[0].padded_us);
}

TEST(SolveCuts, H12_TheMarginSaysHowALengthIsDivided) {
  const CutModel m;
  plan::Plan plan = plan_with(2);
  plan.placements = {{"", 0, 1}};
  LengthRules rules;
  rules.choice = LengthChoice::kMargin;
  rules.lengths = {66, 70, 96, 110, 90};
  rules.fixed_lanes = {1};
  rules.prebuilt = {32, 64, 128};
  const auto found = find_lengths(FixedShapes(), kinds_of(m.subgraphs, m.weights), plan, rules);
  ASSERT_EQ(found.size(), 5u);
  // While lane 1 computes 64 tokens, lane 0 computes 6.4: 2 tokens leave it idle for too long.
  EXPECT_FALSE(found[0].is_worthwhile);
  EXPECT_EQ(found[1].tokens, (plan::Shares{{1, 64}, {0, 6}}));
  // 32 more take lane 0 so long that lane 1 has them too.
  EXPECT_EQ(found[2].tokens, (plan::Shares{{1, 64}, {1, 32}}));
  EXPECT_EQ(found[3].tokens, (plan::Shares{{1, 64}, {1, 32}, {0, 14}}));
  for (size_t i = 1; i < 4; ++i) EXPECT_TRUE(found[i].is_worthwhile) << i;
  // 26 take lane 0 four times as long as 64 take lane 1, and no shape is as short.
  EXPECT_FALSE(found[4].is_worthwhile);
}

// Another lane that takes any number of tokens, slower than both, stands before them.
class SlowLaneInFront : public FixedShapes {
 public:
  double task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape,
                 int context) const override {
    if (lane > 0) return FixedShapes::task_us(lane - 1, subgraph, shape, context);
    return 10.0 * FixedShapes::task_us(0, subgraph, shape, context);
  }
};

TEST(SolveCuts, H12_TheFastestOtherLaneGetsTheMargin) {
  const CutModel m;
  plan::Plan plan = plan_with(3);
  plan.placements = {{"", 0, 2}};
  LengthRules rules;
  rules.choice = LengthChoice::kMargin;
  rules.lengths = {70};
  rules.fixed_lanes = {2};
  rules.prebuilt = {32, 64, 128};
  const auto found = find_lengths(SlowLaneInFront(), kinds_of(m.subgraphs, m.weights), plan, rules);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].is_worthwhile);
  EXPECT_EQ(found[0].tokens, (plan::Shares{{2, 64}, {1, 6}}));
}

TEST(SolveCuts, H12_WithoutALaneOfFixedShapesNoMarginDivides) {
  const CutModel m;
  LengthRules rules;
  rules.choice = LengthChoice::kMargin;
  rules.lengths = {70};
  const auto found =
      find_lengths(FixedShapes(), kinds_of(m.subgraphs, m.weights), plan_with(2), rules);
  EXPECT_TRUE(found.at(0).tokens.empty());
  EXPECT_FALSE(found.at(0).is_worthwhile);
}

// Products take time for each row that is present, on any lane; nothing else takes time.
class LinearTimes : public TimeModel {
 public:
  explicit LinearTimes(const weights::Store& weights) : weights_(weights) {}
  double task_us(int, const lanes::Subgraph& subgraph, TaskShape shape, int) const override {
    double us = 0.0;
    for (size_t i = 0; i < subgraph.ops.size(); ++i) {
      if (!schedule::is_product(subgraph.ops[i])) continue;
      const auto op = shape_of(subgraph, i, weights_, tensor::Type::kF16, shape.present(), 1);
      if (op) us += plan::op_flops(*op);
    }
    return us;
  }
  double handover_us(int, int) const override { return 0.0; }

 private:
  const weights::Store& weights_;
};

// Both lanes take half of the rows that are present, which no division by whole granules beats.
TEST(SolveCuts, H4_RowsThatAreAbsentAreNoReasonForALength) {
  const CutModel m;
  plan::Plan plan = plan_with(2);
  plan.prompt_shapes = {512};
  plan::TensorCut cut;
  cut.phase = Phase::kPrompt;
  cut.rows = {{0, 1}, {1, 1}};
  plan.cuts = {cut};
  LengthRules rules;
  rules.lengths = {160};
  const auto found =
      find_lengths(LinearTimes(m.weights), kinds_of(m.subgraphs, m.weights), plan, rules);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].tokens.empty());
  EXPECT_FALSE(found[0].is_worthwhile) << found[0].us << " for " << found[0].padded_us;
}

// Expects that lengths are found worthwhile in int8 alone where all work is on an OpenVINO lane,
// and that plans with them are accepted. Only in int8 does it have the bits of the lanes of cores.
void expect_lengths_in_int8_alone(int n_lanes, const std::vector<int>& fixed_lanes) {
  const CutModel m;
  for (const plan::Prefill prefill : {plan::Prefill::kBf16, plan::Prefill::kInt8}) {
    plan::Plan plan = plan_with(n_lanes);
    plan.prefill = prefill;
    plan.lanes[1].kind = "openvino";
    plan.lanes[1].device = "CPU";
    plan.placements = {{"", 0, 1}};
    LengthRules rules;
    rules.lengths = {70};
    rules.fixed_lanes = fixed_lanes;
    if (!fixed_lanes.empty()) rules.prebuilt = plan.prompt_shapes;
    for (const LengthFound& found :
         find_lengths(FixedShapes(), kinds_of(m.subgraphs, m.weights), plan, rules)) {
      EXPECT_EQ(found.is_worthwhile, prefill == plan::Prefill::kInt8);
      if (found.is_worthwhile) plan.lengths.push_back({found.n_tokens, found.tokens});
    }
    EXPECT_NO_THROW(schedule::check_cuts(plan, m.blueprint));
    EXPECT_NO_THROW(schedule::check_placements(plan, m.blueprint));
  }
}

TEST(SolveCuts, H4_LanesWithFloatsOfTheirOwnGetNoPartOfALength) {
  expect_lengths_in_int8_alone(2, {1});
}

// Two lanes of cores would take less time together, with other bits than those of other lengths.
TEST(SolveCuts, H4_WhatALaneWithFloatsOfItsOwnRunsIsNotDividedByLengths) {
  expect_lengths_in_int8_alone(3, {});
}

}  // namespace
}  // namespace troika::solve
