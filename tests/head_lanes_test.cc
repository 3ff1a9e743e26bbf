// Sparse attention runs as tasks of heads on lanes of this machine (S4-S7). With any lanes, steps
// of the pipeline and chunks, it has the bits of one lane that does all.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "base/trace.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "tests/support/logits.h"
#include "tests/support/repository.h"
#include "tune/attention_statistics.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using plan::HeadStep;
using test_support::TinyModel;
using test_support::TinyModelFile;
using HeadRow = std::vector<float>;

constexpr int kHeadContext = 1024;
constexpr HeadStep kHeadSteps[] = {HeadStep::kInTurn, HeadStep::kOverlap, HeadStep::kFused,
                                   HeadStep::kOrdered};

TinyModel model_of_heads() {
  TinyModel model = test_support::tiny_model("llama");
  model.width = 64;
  model.n_heads = 6;
  model.n_kv_heads = 2;
  model.head_dim = model.rope_dims = 32;
  model.ffn_width = 128;
  model.type = test_support::kQ8_0;
  model.context = kHeadContext;
  return model;
}

class HeadLanes : public testing::Test {
 protected:
  void SetUp() override {
    if (usable_core_numbers().size() < 2) GTEST_SKIP() << "two lanes need two cores";
  }
  static prepare::Options one_lane() {
    static const TinyModelFile file(model_of_heads());
    prepare::Options options;
    options.model.file = file.path();
    options.memory.context = kHeadContext;
    options.lanes.n_threads = 1;
    options.prompts.prefill = plan::Prefill::kBf16;
    options.prompts.attention = plan::AttentionForm::kQuery;
    options.prompts.attention_share = 20;
    options.prompts.attention_from = 512;
    options.prompts.chunk = 128;
    return options;
  }
  static prepare::Options on_lanes(prepare::Options options, std::vector<int> lanes,
                                   HeadStep step) {
    const std::vector<int> cores = usable_core_numbers();
    options.lanes.n_threads = 0;
    options.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
    options.prompts.attention_lanes = std::move(lanes);
    options.prompts.attention_step = step;
    return options;
  }
  // Returns options with scales of heads that a prompt gave, and with n buckets of them.
  static prepare::Options with_buckets(int n) {
    static const std::vector<float> scales = [] {
      prepare::Options full = one_lane();
      full.prompts.attention = plan::AttentionForm::kFull;
      full.prompts.attention_share.reset();
      Engine engine(full);
      tune::AttentionStatistics statistics(engine.kernels().table, engine.blueprint(), 512, 1);
      Session session(engine);
      session.watch({.inputs = &statistics});
      session.prefill(tokens(960, 5));
      // The scales are doubled, as if the text had been louder, so that their mean fits no head.
      std::vector<float> louder = statistics.head_scales();
      for (float& scale : louder) scale *= 2;
      return louder;
    }();
    prepare::Options options = one_lane();
    options.prompts.head_scales = scales;
    options.prompts.attention_buckets = n;
    return options;
  }
  static std::vector<text::Token> tokens(size_t n, uint64_t seed = 3) {
    return test_support::random_tokens(model_of_heads(), n, seed);
  }
  // Returns the logits behind the prompt, and behind two tokens of an answer, which attends to
  // everything.
  static std::vector<HeadRow> rows_of(Engine& engine, size_t n = 700) {
    Session session(engine);
    session.prefill(tokens(n));
    std::vector<HeadRow> rows;
    rows.emplace_back(session.logits().begin(), session.logits().end());
    engine::SamplerOptions likeliest;
    likeliest.temperature = 0;
    engine::Sampler greedy(likeliest);
    for (int i = 0; i < 3; ++i) session.next(greedy);
    rows.emplace_back(session.logits().begin(), session.logits().end());
    return rows;
  }
  static std::vector<HeadRow> rows_of(const prepare::Options& options, size_t n = 700) {
    Engine engine(options);
    return rows_of(engine, n);
  }
  static std::string refusal_of(const prepare::Options& options) {
    try {
      const Engine engine(options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(HeadLanes, S6LanesStepsAndChunksChangeNoBit) {
  const std::vector<HeadRow> wanted = rows_of(one_lane());
  for (const std::vector<int>& lanes :
       {std::vector<int>{1, 0, 0}, {0, 1, 1}, {1, 1, 0}, {0, 0, 0}}) {
    for (const HeadStep step : kHeadSteps) {
      if (lanes != std::vector<int>{1, 0, 0} && step != HeadStep::kOrdered) continue;
      EXPECT_EQ(rows_of(on_lanes(one_lane(), lanes, step)), wanted)
          << lanes[0] << lanes[1] << lanes[2] << plan::head_step_name(step);
    }
  }
  for (const int chunk : {64, 96}) {
    prepare::Options options = one_lane();
    options.prompts.chunk = chunk;
    const std::vector<HeadRow> of_chunk = rows_of(options);
    for (const plan::Order order :
         {plan::Order::kInOrder, plan::Order::kLockStep, plan::Order::kOutOfOrder}) {
      options.prompts.order = order;
      EXPECT_EQ(rows_of(on_lanes(options, {1, 0, 0}, HeadStep::kOrdered)), of_chunk) << chunk;
    }
  }
  prepare::Options wide = on_lanes(one_lane(), {1, 0, 0}, HeadStep::kFused);
  for (plan::HostLane& lane : wide.lanes.cores) lane.n_threads = 3;
  EXPECT_EQ(rows_of(wide), wanted);
}

// With all positions, attention by heads gives what attention of all heads together gives.
TEST_F(HeadLanes, S6WithAllPositionsNothingIsLost) {
  prepare::Options all = one_lane();
  all.prompts.attention_share = 100;
  EXPECT_EQ(rows_of(on_lanes(all, {1, 0, 0}, HeadStep::kOrdered)), rows_of(all));
}

TEST_F(HeadLanes, S4FixedScalesAreTheSameOnOneLaneAndOnTwo) {
  const std::vector<HeadRow> as_they_come = rows_of(one_lane());
  std::vector<std::vector<HeadRow>> seen = {as_they_come};
  for (const int n : {1, 5, 9}) {
    const std::vector<HeadRow> wanted = rows_of(with_buckets(n), 896);
    for (const HeadStep step : {HeadStep::kOverlap, HeadStep::kOrdered}) {
      EXPECT_EQ(rows_of(on_lanes(with_buckets(n), {1, 0, 0}, step), 896), wanted) << n;
    }
    for (const int chunk : {64, 192}) {
      prepare::Options other = with_buckets(n);
      other.prompts.chunk = chunk;
      other.lanes.n_threads = 2;
      Engine engine(other);
      if (engine.plan().n_prompt_phase(896) != 896) continue;
      EXPECT_EQ(rows_of(engine, 896), wanted) << n;
    }
    seen.push_back(wanted);
  }
  for (size_t i = 1; i < seen.size(); ++i) EXPECT_NE(seen[i], seen[0]);
  EXPECT_NE(seen[1], seen[3]);
}

// ‹strict-npu› fixes the scales too.
TEST_F(HeadLanes, S4StrictLanesTakeNineBuckets) {
  prepare::Options strict = with_buckets(9);
  strict.prompts.attention_buckets.reset();
  strict.lanes.is_strict_npu = true;
  Engine engine(strict);
  EXPECT_EQ(engine.plan().attention.n_buckets, 9);
  EXPECT_EQ(rows_of(engine, 896), rows_of(with_buckets(9), 896));
}

TEST_F(HeadLanes, S5S7FusedLaunchesAndAPlannedOrderShowInTheTrace) {
  const TinyModel model = model_of_heads();
  for (const HeadStep step : kHeadSteps) {
    Engine engine(on_lanes(one_lane(), {1, 0, 0}, step));
    Session session(engine);
    Trace trace(engine.trace_rows());
    session.watch({.trace = &trace});
    session.prefill(tokens(896));
    size_t n_estimates = 0, n_exact = 0, n_stores = 0;
    for (const TraceEvent& event : trace.events()) {
      const std::string name = event.name;
      EXPECT_TRUE(name != "estimate" || event.lane == 1);
      EXPECT_TRUE((name != "select" && name != "exact") || event.lane == 0);
      n_estimates += name == "estimate" ? 1 : 0;
      n_exact += name == "exact" ? 1 : 0;
      n_stores += name == "store" ? 1 : 0;
    }
    const auto n_blocks = static_cast<size_t>(model.n_layers) * 7;  // counts blocks of seven chunks
    const auto n_heads = static_cast<size_t>(model.n_heads);
    EXPECT_EQ(n_stores, n_blocks);
    EXPECT_EQ(n_exact, n_blocks * n_heads);
    // The six heads take launches of four and of two.
    EXPECT_EQ(n_estimates, step < HeadStep::kFused ? n_blocks * n_heads : n_blocks * 2);
    const schedule::PlanningTime* planning = engine.passes().chunk_policy->planning();
    ASSERT_EQ(planning != nullptr, step == HeadStep::kOrdered);
    if (planning != nullptr) {
      EXPECT_EQ(planning->n_plans, n_blocks);
    }
  }
}

TEST_F(HeadLanes, WhatDoesNotFitIsASentence) {
  EXPECT_NE(refusal_of(on_lanes(one_lane(), {2, 0, 0}, HeadStep::kOrdered)).find("lane 2"),
            std::string::npos);
  EXPECT_NE(refusal_of(on_lanes(one_lane(), {1, 0}, HeadStep::kOrdered)).find("three lanes"),
            std::string::npos);
  prepare::Options unknown = one_lane();
  unknown.prompts.attention_buckets = 9;
  EXPECT_NE(refusal_of(unknown).find("troika tune"), std::string::npos);
  EXPECT_NE(refusal_of(with_buckets(3)).find("‹attention-buckets› 3"), std::string::npos);
  prepare::Options chunk = with_buckets(9);
  chunk.prompts.chunk = 100;
  EXPECT_NE(refusal_of(chunk).find("divides tiles of 64"), std::string::npos);
}

}  // namespace
}  // namespace troika
