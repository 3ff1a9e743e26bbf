#include "tune/choose_plan.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/system.h"
#include "engine/session.h"
#include "plan/profile_cache.h"
#include "solve/profile/op_shapes.h"
#include "tests/support/tiny_engine.h"

namespace troika::tune {
namespace {

// Expects that a candidate gives the same logits as a session without it.
void expect_same_text(const PlanCandidate& candidate, prepare::Options options,
                      const test_support::TinyEngine& tiny) {
  options.plan.exact = candidate.plan;
  engine::Engine engine(options);
  engine::Session session(engine);
  const std::vector<cache::Token> prompt = {1, 5, 9, 200, 31};
  session.prefill(prompt);
  tiny.session->prefill(prompt);
  EXPECT_EQ(test_support::copy_of(session.logits()), test_support::copy_of(tiny.session->logits()))
      << candidate.name;
}

TEST(ChoosePlan, H11_CandidatesArePredictedAndTheBestOneRuns) {
  const test_support::TinyEngine tiny;
  ChooseRequest request;
  request.options.model.file = tiny.engine->file().path();
  request.options.memory.context = 96;
  request.prompts = {16, 64};
  request.budget_s = 1.0;
  request.use_cache = false;
  const PlanChoice choice =
      choose_plan(request, [](const std::string&) { return [](uint64_t, uint64_t) {}; });
  ASSERT_GE(choice.candidates.size(), 1u);
  ASSERT_LT(choice.best, choice.candidates.size());
  bool has_single_thread = false;
  for (const PlanCandidate& c : choice.candidates) {
    ASSERT_EQ(c.prompt_us.size(), 2u);
    EXPECT_GT(c.prompt_us[0], 0.0);
    EXPECT_GT(c.prompt_us[1], 0.0) << c.name;
    EXPECT_GT(c.step_us, 0.0);
    has_single_thread |= c.plan.n_threads() == 1;
    expect_same_text(c, request.options, tiny);
  }
  EXPECT_TRUE(has_single_thread);
}

// Returns a request for a plan with two lanes, one on each of two cores.
ChooseRequest request_on_two_cores(const test_support::TinyEngine& tiny) {
  ChooseRequest request;
  request.options.model.file = tiny.engine->file().path();
  request.options.memory.context = 96;
  const std::vector<int> cores = usable_core_numbers();
  request.options.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
  request.prompts = {64};
  request.budget_s = 1.0;
  request.use_cache = false;
  return request;
}

TEST(ChoosePlan, H10_LanesAreTriedWithAndWithoutCuts) {
  if (usable_core_numbers().size() < 2) GTEST_SKIP() << "there is one core";
  const test_support::TinyEngine tiny;
  ChooseRequest request = request_on_two_cores(tiny);
  const auto stage = [](const std::string&) { return [](uint64_t, uint64_t) {}; };
  const PlanChoice choice = choose_plan(request, stage);
  ASSERT_FALSE(choice.candidates.empty());
  EXPECT_TRUE(choice.candidates[0].plan.cuts.empty());
  EXPECT_FALSE(choice.candidates[0].notes.empty());
  for (const PlanCandidate& c : choice.candidates) {
    expect_same_text(c, request.options, tiny);
  }
  request.options.lanes.has_cuts = false;
  EXPECT_EQ(choose_plan(request, stage).candidates.size(), 1u);
}

// A cut of a subgraph that the plan does not have would be refused when the plan runs.
TEST(ChoosePlan, H10_CutsAreOfTheSubgraphsThatThePlanHas) {
  if (usable_core_numbers().size() < 2) GTEST_SKIP() << "there is one core";
  const test_support::TinyEngine tiny;
  ChooseRequest request = request_on_two_cores(tiny);
  request.options.lanes.splits.at_norms = true;
  const PlanChoice choice =
      choose_plan(request, [](const std::string&) { return [](uint64_t, uint64_t) {}; });
  bool has_out = false;
  for (const solve::CutNote& note : choice.candidates.at(0).notes) {
    has_out = has_out || std::string(note.subgraph) == "out";
  }
  EXPECT_TRUE(has_out);
  for (const PlanCandidate& c : choice.candidates) {
    expect_same_text(c, request.options, tiny);
  }
}

TEST(ChoosePlan, WithoutTimeAPlanIsStillChosen) {
  const test_support::TinyEngine tiny;
  ChooseRequest request;
  request.options.model.file = tiny.engine->file().path();
  request.options.memory.context = 96;
  request.options.lanes.n_threads = 1;
  request.prompts = {16, 64};
  request.budget_s = 0.0;
  request.use_cache = false;
  std::vector<std::string> stages;
  const PlanChoice choice = choose_plan(request, [&](const std::string& name) {
    stages.push_back(name);
    return [](uint64_t, uint64_t) {};
  });
  ASSERT_EQ(choice.candidates.size(), 1u);
  EXPECT_GT(choice.candidates[0].step_us, 0.0);
  // Each core alone, and the disk, would take time beside the budget, and nothing is chosen by
  // them.
  EXPECT_EQ(stages, std::vector<std::string>{"ops on lanes"});
}

TEST(ChoosePlan, KeepsPrecisionsAndCalibrationOfAPlanThatIsGiven) {
  const test_support::TinyEngine tiny;
  plan::Plan like = tiny.engine->plan();
  like.prefill = plan::Prefill::kInt8;
  like.prefill_reason = "measured";
  like.int8.method = plan::Int8Method::kTokenShadow;
  like.int8.text = "a book";
  like.kv_type = tensor::Type::kF32;
  const model::Blueprint& blueprint = tiny.engine->blueprint();
  like.ffn.form = plan::FfnForm::kByNeuron;
  like.ffn.thresholds.assign(static_cast<size_t>(blueprint.n_layers), 0.125f);
  like.attention.form = plan::AttentionForm::kSparse;
  like.attention.head_shares.assign(static_cast<size_t>(blueprint.n_layers * blueprint.n_heads),
                                    0.5f);
  like.splits.at_norms = true;
  like.short_rest = 16;
  like.order = plan::Order::kLockStep;
  like.handover = plan::HandoverKind::kFast;
  like.chunks_in_flight = 3;
  like.step_costs = {{1, 5.0}};  // holds for its own lanes
  ChooseRequest request;
  request.options.model.file = tiny.engine->file().path();
  request.options.memory.context = 96;
  request.options.lanes.n_threads = 1;
  request.like = &like;
  request.prompts = {16, 64};
  request.budget_s = 0.5;
  request.use_cache = false;
  const PlanChoice choice =
      choose_plan(request, [](const std::string&) { return [](uint64_t, uint64_t) {}; });
  ASSERT_EQ(choice.candidates.size(), 1u);
  const plan::Plan& plan = choice.candidates[0].plan;
  EXPECT_EQ(plan.n_threads(), 1);
  EXPECT_EQ(plan.prefill, plan::Prefill::kInt8);
  EXPECT_EQ(plan.prefill_reason, "measured");
  EXPECT_EQ(plan.int8.method, plan::Int8Method::kTokenShadow);
  EXPECT_EQ(plan.int8.text, "a book");
  EXPECT_EQ(plan.kv_type, tensor::Type::kF32);
  EXPECT_EQ(plan.ffn, like.ffn);
  EXPECT_EQ(plan.attention, like.attention);
  // Positions are chosen for 64 tokens together, so that chunks hold whole tiles.
  EXPECT_EQ(plan.reuse_granule, plan::kAttentionTile);
  EXPECT_EQ(plan.chunk() % plan::kAttentionTile, 0) << plan.chunk();
  EXPECT_EQ(plan.splits, like.splits);
  EXPECT_EQ(plan.short_rest, 16);
  EXPECT_EQ(plan.order, like.order);
  EXPECT_EQ(plan.handover, like.handover);
  EXPECT_EQ(plan.chunks_in_flight, 3);
  EXPECT_TRUE(plan.step_costs.empty());
  EXPECT_EQ(parts_not_kept(like), std::vector<std::string>{"step_costs"});
}

// Candidates have other lanes than the plan that they are like.
TEST(ChoosePlan, LeavesOutWhatNamesLanesOfThePlanThatIsGiven) {
  const test_support::TinyEngine tiny;
  plan::Plan like = tiny.engine->plan();
  like.lanes = {{{0}, 1}, {{1}, 1}};
  like.placements = {{"ffn", 0, 1}};
  like.cuts = {plan::cut_from_text("ffn@prompt=rows:0:1,1:1")};
  like.attention.form = plan::AttentionForm::kQuery;
  like.attention.head_lanes = {1, 1, 1};
  like.ffn.form = plan::FfnForm::kByNeuron;
  like.ffn.thresholds.assign(static_cast<size_t>(tiny.engine->blueprint().n_layers), 0.125f);
  like.ffn.hot = {50, 1, 7};
  like.prompt_shapes = {32};
  like.order = plan::Order::kInOrder;  // as cuts have it
  like.chunks_in_flight = 1;
  ChooseRequest request;
  request.options.model.file = tiny.engine->file().path();
  request.options.memory.context = 96;
  request.options.lanes.n_threads = 1;
  request.like = &like;
  request.prompts = {16};
  request.budget_s = 0.1;
  request.use_cache = false;
  const PlanChoice choice =
      choose_plan(request, [](const std::string&) { return [](uint64_t, uint64_t) {}; });
  ASSERT_EQ(choice.candidates.size(), 1u);
  const plan::Plan& plan = choice.candidates[0].plan;
  EXPECT_TRUE(plan.placements.empty());
  EXPECT_TRUE(plan.cuts.empty());
  EXPECT_EQ(plan.order, plan::Plan().order);
  EXPECT_EQ(plan.chunks_in_flight, plan::Plan().chunks_in_flight);
  EXPECT_TRUE(plan.attention.head_lanes.empty());
  EXPECT_EQ(plan.attention.form, plan::AttentionForm::kQuery);
  EXPECT_EQ(plan.ffn.hot, (plan::FfnHot{50, 0, 7}));
  EXPECT_EQ(parts_not_kept(like), std::vector<std::string>{"the lanes of attention"});
}

// A machine with a made-up profile, which is kept where choose_plan finds that of this machine.
// Products of prompts take a millisecond for each token, and half of that in one chunk.
class MadeUpMachine : public testing::Test {
 protected:
  static constexpr int kPrompt = 512;

  MadeUpMachine() {
    setenv("XDG_CACHE_HOME", folder_.file("cache").c_str(), 1);
    tiny_ = std::make_unique<test_support::TinyEngine>(model(), options());
    request_.options = options();
    request_.options.model.file = tiny_->engine->file().path();
    request_.prompts = {kPrompt};
    request_.budget_s = 0.0;
    (void)choose();  // keeps a profile that says which machine this is
  }
  ~MadeUpMachine() override { unsetenv("XDG_CACHE_HOME"); }

  // Keeps a profile in which `fast_chunk` is the best, in this arrangement of its products.
  void make_up(int fast_chunk, const std::string& arrangement) const {
    const engine::Engine& engine = *tiny_->engine;
    std::string problem;
    std::optional<plan::Profile> profile = measure::kept_profile_of(*tiny_->engine, &problem);
    ASSERT_TRUE(profile) << problem;
    profile->load_average = 0.0;  // else it might be measured again
    profile->ops.clear();
    for (const plan::OpShape& shape :
         solve::model_shapes(engine.blueprint(), engine.weights(), engine.plan().kv_type)) {
      plan::OpTime time = {.lane = 0, .shape = shape, .us = 5.0, .n_runs = 9};
      if (shape.op == model::OpKind::kLinear && shape.phase == plan::Phase::kPrompt) {
        const bool is_fast = shape.n_tokens == fast_chunk;
        time.us = (is_fast ? 500.0 : 1000.0) * shape.n_tokens;
        if (is_fast) time.arrangement = arrangement;
      }
      profile->ops.push_back(time);
    }
    (void)plan::keep_profile(*profile);
  }
  PlanCandidate choose() const {
    PlanChoice choice =
        choose_plan(request_, [](const std::string&) { return [](uint64_t, uint64_t) {}; });
    EXPECT_EQ(choice.candidates.size(), 1u);
    return std::move(choice.candidates.at(choice.best));
  }

  ChooseRequest request_;
  std::unique_ptr<test_support::TinyEngine> tiny_;

 private:
  static test_support::TinyModel model() {
    test_support::TinyModel model = test_support::small_model();
    model.context = 1024;
    return model;
  }
  static prepare::Options options() {
    prepare::Options options;
    options.memory.context = kPrompt + 64;
    options.lanes.n_threads = 1;
    options.prompts.prefill = plan::Prefill::kBf16;
    return options;
  }

  test::TempFolder folder_;
};

TEST_F(MadeUpMachine, N1_TheChunkIsTheOneWhoseTokensTakeLeastTime) {
  const std::vector<int> chunks = tiny_->engine->plan().prompt_shapes;
  ASSERT_EQ(chunks, (std::vector<int>{32, 128, 512}));
  for (const int chunk : chunks) {
    make_up(chunk, "");
    EXPECT_EQ(choose().plan.chunk(), chunk);
  }
}

TEST_F(MadeUpMachine, N8_TheFastestArrangementOfEachProductIsInThePlan) {
  make_up(128, "");
  EXPECT_TRUE(choose().plan.arrangements.empty());
  make_up(128, "32 rows");
  const PlanCandidate found = choose();
  const model::Blueprint& blueprint = tiny_->engine->blueprint();
  std::set<std::pair<int, int>> wanted, seen;
  for (const model::Op& op : blueprint.ops) {
    if (op.kind != model::OpKind::kLinear) continue;
    if (blueprint.values[static_cast<size_t>(op.output)].per_output) continue;
    const model::Weight& weight = blueprint.weights[static_cast<size_t>(op.weight)];
    wanted.emplace(weight.n_rows, weight.row_length);
  }
  for (const plan::ProductArrangement& one : found.plan.arrangements) {
    EXPECT_EQ(one.lane, 0);
    EXPECT_EQ(one.shape, (plan::Shape{plan::Phase::kPrompt, 128}));
    EXPECT_EQ(one.arrangement, "32 rows");
    EXPECT_TRUE(seen.emplace(one.n_rows, one.k).second);
  }
  EXPECT_EQ(seen, wanted);
  EXPECT_FALSE(wanted.empty());
  expect_same_text(found, request_.options, *tiny_);
}

}  // namespace
}  // namespace troika::tune
