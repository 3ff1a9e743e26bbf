#include "solve/place.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "forge/hollow.h"
#include "model/architecture.h"
#include "model/known.h"

namespace troika::solve {
namespace {

// Lane 0 is slow at everything; lane 1 fast at products of many tokens and bad at attention.
class MadeUpTimes : public TaskTimes {
 public:
  explicit MadeUpTimes(double handover) : handover_(handover) {}
  double task_us(int lane, const lanes::Subgraph& subgraph, plan::Shape shape, int) const override {
    const int n_tokens = shape.n_rows;
    const bool is_product = !subgraph.is_dynamic() && std::string(subgraph.name) != "embed";
    if (lane == 0) return is_product ? 10.0 * n_tokens : 5.0 * n_tokens;
    return is_product ? 20.0 + 1.0 * n_tokens : 50.0 * n_tokens;
  }
  double handover_us(int from, int to) const override { return from == to ? 0.0 : handover_; }

 private:
  double handover_;
};

// For steps of one token and prompts of the others.
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
  plan.placements = choice.placements;
  return plan;
}

TEST(Place, N10_PromptAndGenerationGetTheLaneThatSuitsEach) {
  const Model m;
  const auto choice = place(m.blueprint, m.weights, {{"slow"}, {"matrix"}}, MadeUpTimes(1.0),
                            request_of({1, 8, 128}));
  const plan::Plan plan = plan_of(choice);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kStep, 128}, 0), 1);
  EXPECT_EQ(plan.lane_of("qkv", {plan::Phase::kStep, 8}, 2), 1);
  EXPECT_EQ(plan.lane_of("attention", {plan::Phase::kStep, 128}, 0), 0);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kStep, 1}, 0), 0);
  EXPECT_EQ(plan.lane_of("head", {plan::Phase::kStep, 1}), 0);
}

TEST(Place, TheChoiceIsNeverSlowerThanASingleLane) {
  const Model m;
  for (const double handover : {0.0, 10.0, 1e3, 1e6}) {
    const auto choice = place(m.blueprint, m.weights, {{"slow"}, {"matrix"}}, MadeUpTimes(handover),
                              request_of({1, 32, 512}));
    ASSERT_EQ(choice.shapes.size(), 3u);
    for (const ShapeChoice& phase : choice.shapes) {
      for (const double us : phase.single_lane_us) EXPECT_LE(phase.us, us);
    }
  }
  // Where a handover costs more than everything else, there is none.
  const auto dear =
      place(m.blueprint, m.weights, {{"slow"}, {"matrix"}}, MadeUpTimes(1e6), request_of({512}));
  for (const auto& [kind, lane] : dear.shapes[0].lanes) {
    EXPECT_EQ(lane, dear.shapes[0].lanes.at("ffn")) << kind;
  }
}

TEST(Place, RulesOfTheUserHold) {
  const Model m;
  PlaceRequest request = request_of({1, 128});
  request.forced = {{"ffn", 0, 0}};
  const auto choice =
      place(m.blueprint, m.weights, {{"slow"}, {"matrix"}}, MadeUpTimes(1.0), request);
  EXPECT_EQ(plan_of(choice).lane_of("ffn", {plan::Phase::kStep, 128}, 0), 0);
  EXPECT_EQ(plan_of(choice).lane_of("qkv", {plan::Phase::kStep, 128}, 0), 1);
  EXPECT_EQ(choice.shapes[1].lanes.at("ffn"), 0);
}

TEST(Place, RulesMayHoldForOnePhaseEach) {
  const Model m;
  PlaceRequest request = request_of({1, 8, 128});
  request.shapes.push_back({plan::Phase::kStep, 128});
  request.has_rules_of_phases = true;
  request.forced = {{"qkv", 0, 0, plan::Placement::kAllBlocks, plan::Phase::kStep}};
  const auto choice =
      place(m.blueprint, m.weights, {{"slow"}, {"matrix"}}, MadeUpTimes(1.0), request);
  const plan::Plan plan = plan_of(choice);
  EXPECT_EQ(plan.lane_of("qkv", {plan::Phase::kStep, 128}, 0), 0);
  EXPECT_EQ(plan.lane_of("qkv", {plan::Phase::kPrompt, 128}, 0), 1);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kStep, 128}, 0), 1);
  for (const plan::Placement& rule : plan.placements) {
    EXPECT_EQ(rule.phase.has_value(), rule.subgraph != "head") << rule.subgraph;
  }
}

TEST(Place, N9_AFullLaneKeepsTheHeaviestAndTheRestGoesElsewhere) {
  const Model m;
  size_t ffn_bytes = 0;
  for (const model::Op& op : m.blueprint.ops) {
    if (op.kind != model::OpKind::kLinear || op.layer != 0) continue;
    const weights::Matrix& matrix = m.weights.matrix(op.weight);
    if (matrix.n_rows == 512 || matrix.row_length == 512) {
      ffn_bytes += matrix.row_bytes * static_cast<size_t>(matrix.n_rows);
    }
  }
  // Room for the FFN of two of the three blocks (the output product of attention is with it).
  const size_t limit = 3 * ffn_bytes - 1;
  const auto choice = place(m.blueprint, m.weights, {{"slow"}, {"matrix", limit}}, MadeUpTimes(1.0),
                            request_of({128}));
  const plan::Plan plan = plan_of(choice);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kStep, 128}, 0), 1);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kStep, 128}, 1), 1);
  EXPECT_EQ(plan.lane_of("ffn", {plan::Phase::kStep, 128}, 2), 0);
  EXPECT_LE(choice.weight_bytes[1], limit);
  EXPECT_GT(choice.weight_bytes[1], limit / 2);
}

TEST(Place, NoLaneWithRoomIsASentence) {
  const Model m;
  EXPECT_THROW(place(m.blueprint, m.weights, {{"a", 1000}, {"b", 1000}}, MadeUpTimes(1.0),
                     request_of({128})),
               Error);
}

}  // namespace
}  // namespace troika::solve
