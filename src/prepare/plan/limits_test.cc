// Whoever reads a refusal learns what has no room: an option, a plan, the machine or its cgroup.
#include <gtest/gtest.h>

#include "base/error.h"
#include "forge/hollow.h"
#include "model/architecture.h"
#include "prepare/memory.h"
#include "prepare/plan/make_plan.h"
#include "tests/support/temp_folder.h"

namespace troika::prepare {
namespace {

constexpr size_t kMebibyte = size_t{1} << 20;

// Plans for a model of seven gigabytes of weights, which take no memory.
class LimitsOfPlans : public testing::Test {
 protected:
  LimitsOfPlans() : file_(hollow_.open()), blueprint_(model::read(file_)) {
    options_.lanes.n_threads = 1;
  }
  // Returns why a context is refused that has no room anywhere.
  std::string refusal(const MemoryFigures& memory) {
    options_.memory.context = 1 << 24;
    return test::message_of<Error>([&] {
      const plan::Plan plan = make_plan(options_, blueprint_, weights_, memory);
      expected_memory(options_, blueprint_, weights_, plan, memory).check();
    });
  }

  forge::HollowModel hollow_{model::get_known("llama-2-7b"), "q8_0"};
  gguf::File file_;
  model::Blueprint blueprint_;
  weights::Store weights_{file_, blueprint_};
  Options options_;
};

TEST_F(LimitsOfPlans, ALimitThatNobodyNamedIsNotCalledByTheNameOfAnOption) {
  MemoryFigures memory = {64 * 1024 * kMebibyte, 2048 * kMebibyte};
  ASSERT_GT(weights_.total_bytes(), memory.available_bytes);
  const std::string of_machine = refusal(memory);
  EXPECT_NE(of_machine.find("he free memory of this machine"), std::string::npos) << of_machine;
  EXPECT_NE(of_machine.find("nd other programs"), std::string::npos) << of_machine;
  EXPECT_EQ(of_machine.find("‹memory›"), std::string::npos) << of_machine;
  memory.is_of_cgroup = true;
  const std::string of_cgroup = refusal(memory);
  EXPECT_NE(of_cgroup.find("limit of the cgroup"), std::string::npos) << of_cgroup;
  EXPECT_EQ(of_cgroup.find("‹memory›"), std::string::npos) << of_cgroup;
  options_.memory.limit_bytes = 2048 * kMebibyte;
  const std::string of_option = refusal({64 * 1024 * kMebibyte, 60 * 1024 * kMebibyte});
  EXPECT_NE(of_option.find("‹memory› 2147.5 MB"), std::string::npos) << of_option;
}

// Where little is free, other programs get less of it, and weights take turns all the same.
TEST(LimitsOfSmallMemories, P10WeightsTakeTurnsHoweverLittleMemoryIsFree) {
  forge::HollowModel hollow(model::get_known("small-bamboo"), "q4_0");
  const gguf::File file = hollow.open();
  const model::Blueprint blueprint = model::read(file);
  const weights::Store weights(file, blueprint);
  Options options;
  options.lanes.n_threads = 1;
  options.memory.context = 128;
  const MemoryFigures few = {64 * 1024 * kMebibyte, 200 * kMebibyte};
  ASSERT_GT(weights.total_bytes(), few.available_bytes);
  const plan::Plan plan = make_plan(options, blueprint, weights, few);
  const plan::Ledger ledger = expected_memory(options, blueprint, weights, plan, few);
  ASSERT_TRUE(ledger.is_limited());
  EXPECT_EQ(ledger.limit_bytes(), 150 * kMebibyte);
  EXPECT_TRUE(are_streamed(blueprint, weights, plan, ledger));
  ledger.check();  // does not throw
  // Where not even turns have room, the pages of the map are all that is left.
  const MemoryFigures fewer = {64 * 1024 * kMebibyte, 10 * kMebibyte};
  EXPECT_FALSE(expected_memory(options, blueprint, weights, plan, fewer).is_limited());
}

// A plan keeps its budget only where there is as much.
TEST_F(LimitsOfPlans, P10ThePlansBudgetIsNoMoreThanWhatIsFree) {
  const MemoryFigures plenty = {64 * 1024 * kMebibyte, 60 * 1024 * kMebibyte};
  plan::Plan plan = make_plan(options_, blueprint_, weights_, plenty);
  plan.streamed_neurons.emplace().budget_bytes = 3 * 1024 * kMebibyte;
  const auto limit = [&](const MemoryFigures& memory) {
    return expected_memory(options_, blueprint_, weights_, plan, memory);
  };
  EXPECT_EQ(limit(plenty).limit_bytes(), plan.streamed_neurons->budget_bytes);
  MemoryFigures few = {2048 * kMebibyte, 2000 * kMebibyte, 10 * kMebibyte, 20 * kMebibyte, true};
  EXPECT_EQ(limit(few).limit_bytes(), (2000 - 256 + 30) * kMebibyte);
  EXPECT_NE(limit(few).limit_text().find("cgroup"), std::string::npos);
  options_.memory.limit_bytes = 3 * 1024 * kMebibyte;
  EXPECT_EQ(limit(few).limit_bytes(), options_.memory.limit_bytes) << "whoever names it, gets it";
}

// A tuned plan of two lanes has several chunks in flight, and one lets weights take turns.
TEST_F(LimitsOfPlans, P10APlanOfLanesStaysWhereOneChunkInFlightLetsWeightsTakeTurns) {
  const MemoryFigures plenty = {64 * 1024 * kMebibyte, 60 * 1024 * kMebibyte};
  plan::Plan base;
  base.lanes = {{{}, 1}, {{}, 1}};
  base.prompt_shapes = {32, 128};
  base.context = 4096;
  ASSERT_GT(base.chunks_in_flight, 1);
  options_.plan.base = base;
  options_.plan.may_leave_base = true;
  options_.memory.context = base.context;
  options_.memory.limit_bytes = 5 * 1024 * kMebibyte;
  EXPECT_FALSE(leaves_base(options_, blueprint_, weights_, plenty));
  const plan::Plan plan = make_plan(options_, blueprint_, weights_, plenty);
  EXPECT_EQ(plan.lanes.size(), 2u);
  EXPECT_EQ(plan.chunks_in_flight, 1);
  const plan::Ledger ledger = expected_memory(options_, blueprint_, weights_, plan, plenty);
  EXPECT_TRUE(are_streamed(blueprint_, weights_, plan, ledger));
  ledger.check();  // does not throw
  options_.prompts.chunks_in_flight = 1;
  EXPECT_FALSE(leaves_base(options_, blueprint_, weights_, plenty));
  options_.prompts.chunks_in_flight = 2;
  EXPECT_TRUE(leaves_base(options_, blueprint_, weights_, plenty));
}

TEST_F(LimitsOfPlans, P10ARefusalNamesWhatKeepsWeightsFromTakingTurns) {
  const MemoryFigures plenty = {64 * 1024 * kMebibyte, 60 * 1024 * kMebibyte};
  plan::Plan plan;
  plan.lanes = {{{}, 1}, {{}, 1}};
  plan.context = 4096;
  options_.memory.context = plan.context;
  options_.memory.limit_bytes = 5 * 1024 * kMebibyte;
  const auto refusal_of = [&] {
    return test::message_of<Error>(
        [&] { expected_memory(options_, blueprint_, weights_, plan, plenty).check(); });
  };
  EXPECT_NE(refusal_of().find("one chunk ‹in-flight›"), std::string::npos) << refusal_of();
  plan.chunks_in_flight = 1;
  EXPECT_EQ(refusal_of(), "");
  plan.lengths = {plan::length_from_text("0:16,1:16")};
  EXPECT_EQ(refusal_of(), "");
  plan.ffn.form = plan::FfnForm::kEveryNeuron;
  EXPECT_NE(refusal_of().find("divided by ‹cut› or ‹length›"), std::string::npos) << refusal_of();
  EXPECT_NE(refusal_of().find("nor by the plan (‹no-cuts›"), std::string::npos) << refusal_of();
  EXPECT_EQ(refusal_of().find("‹in-flight›"), std::string::npos) << refusal_of();
  plan.prefill = plan::Prefill::kBf16;  // reads whole matrices, which lanes may share
  EXPECT_EQ(refusal_of(), "");
  plan.cuts = {plan::cut_from_text("ffn@step:8=tokens:0:4,1:4")};
  EXPECT_NE(refusal_of().find("divided by ‹cut› or ‹length›"), std::string::npos) << refusal_of();
  plan.cuts = {plan::cut_from_text("qkv@step:8=tokens:0:4,1:4"),
               plan::cut_from_text("ffn@prompt=tokens:0:4,1:4")};
  EXPECT_EQ(refusal_of(), "");
}

// Refusals advise the layout that there is anyway.
TEST_F(LimitsOfPlans, P10WeightsTakeTurnsWhereTheUsualLayoutIsNamedToo) {
  const MemoryFigures plenty = {64 * 1024 * kMebibyte, 60 * 1024 * kMebibyte};
  const MemoryFigures few = {64 * 1024 * kMebibyte, 3 * 1024 * kMebibyte};
  options_.memory.context = 512;
  for (const auto& [limit, memory] :
       {std::pair(size_t{3} * 1024 * kMebibyte, plenty), std::pair(size_t{0}, few)}) {
    options_.memory.limit_bytes = limit;
    options_.memory.layouts.reset();
    const plan::Plan plan = make_plan(options_, blueprint_, weights_, memory);
    const plan::Ledger usual = expected_memory(options_, blueprint_, weights_, plan, memory);
    ASSERT_TRUE(are_streamed(blueprint_, weights_, plan, usual));
    options_.memory.layouts = Layouts::kBlocks;
    const plan::Plan named = make_plan(options_, blueprint_, weights_, memory);
    const plan::Ledger ledger = expected_memory(options_, blueprint_, weights_, named, memory);
    EXPECT_EQ(ledger.limit_bytes(), usual.limit_bytes());
    EXPECT_EQ(ledger.total_bytes(), usual.total_bytes());
    ledger.check();  // does not throw
    options_.memory.layouts = Layouts::kBoth;
    EXPECT_FALSE(may_stream(options_, blueprint_, plan));
  }
}

// A part of a prompt has no more tokens than the context, however many were asked for, and values
// count for no more.
TEST_F(LimitsOfPlans, WhatAContextIsTooShortForCountsForNothing) {
  const MemoryFigures plenty = {64 * 1024 * kMebibyte, 60 * 1024 * kMebibyte};
  options_.memory.context = 2048;
  options_.prompts.chunk = 300'000;
  options_.memory.limit_bytes = 16 * 1024 * kMebibyte;
  options_.ffn.form = plan::FfnForm::kEveryNeuron;
  EXPECT_NE(make_plan(options_, blueprint_, weights_, plenty).prefill, plan::Prefill::kSame);
  options_.ffn.form.reset();
  options_.lanes.n_threads = 0;
  options_.lanes.cores = {{{}, 1}, {{}, 1}};
  EXPECT_GT(make_plan(options_, blueprint_, weights_, plenty).chunks_in_flight, 1);
}

}  // namespace
}  // namespace troika::prepare
