#include "tune/choose_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "base/system.h"
#include "engine/session.h"
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
}

}  // namespace
}  // namespace troika::tune
