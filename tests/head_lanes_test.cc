// Sparse attention runs as tasks of heads on lanes of this machine (S4-S7). With any lanes, steps
// of the pipeline and chunks, it has the bits of one lane that does all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/system.h"
#include "base/trace.h"
#include "engine/memory/taken_memory.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "machines/heads_here.h"
#include "plan/plan_json.h"
#include "prepare/plan/saved_plan.h"
#include "solve/lane_memory.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/company.h"
#include "tests/support/engine_refusal.h"
#include "tests/support/logits.h"
#include "tests/support/repository.h"
#include "tune/attention/attention_statistics.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using plan::HeadStage;
using test_support::engine_refusal;
using test_support::TinyModel;
using test_support::TinyModelFile;
using HeadRow = std::vector<float>;

constexpr int kHeadContext = 1024;
constexpr HeadStage kHeadStages[] = {HeadStage::kInTurn, HeadStage::kOverlap, HeadStage::kFused,
                                     HeadStage::kOrdered};

TinyModel model_of_heads() { return test_support::narrow_llama(kHeadContext, 6, 2); }

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
                                   HeadStage stage) {
    const std::vector<int> cores = usable_core_numbers();
    options.lanes.n_threads = 0;
    options.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
    options.prompts.attention_lanes = std::move(lanes);
    options.prompts.attention_stage = stage;
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
};

TEST_F(HeadLanes, S6LanesStepsAndChunksChangeNoBit) {
  const std::vector<HeadRow> wanted = rows_of(one_lane());
  for (const std::vector<int>& lanes :
       {std::vector<int>{1, 0, 0}, {0, 1, 1}, {1, 1, 0}, {0, 0, 0}}) {
    for (const HeadStage stage : kHeadStages) {
      if (lanes != std::vector<int>{1, 0, 0} && stage != HeadStage::kOrdered) continue;
      EXPECT_EQ(rows_of(on_lanes(one_lane(), lanes, stage)), wanted)
          << lanes[0] << lanes[1] << lanes[2] << plan::head_stage_name(stage);
    }
  }
  for (const int chunk : {64, 96}) {
    prepare::Options options = one_lane();
    options.prompts.chunk = chunk;
    const std::vector<HeadRow> of_chunk = rows_of(options);
    for (const plan::Order order :
         {plan::Order::kInOrder, plan::Order::kLockStep, plan::Order::kOutOfOrder}) {
      options.prompts.order = order;
      EXPECT_EQ(rows_of(on_lanes(options, {1, 0, 0}, HeadStage::kOrdered)), of_chunk) << chunk;
    }
  }
  prepare::Options wide = on_lanes(one_lane(), {1, 0, 0}, HeadStage::kFused);
  for (plan::PlannedLane& lane : wide.lanes.cores) lane.n_threads = 3;
  EXPECT_EQ(rows_of(wide), wanted);
}

// With all positions, heads attend as attention does that does not choose, but for its bfloat16.
TEST_F(HeadLanes, S6WithAllPositionsNothingIsLost) {
  prepare::Options all = one_lane(), full = one_lane();
  all.prompts.attention_share = 100;
  full.prompts.attention = plan::AttentionForm::kFull;
  full.prompts.attention_share.reset();
  const std::vector<HeadRow> wanted = rows_of(full);
  const auto distance = [&](const prepare::Options& options) {
    const HeadRow row = rows_of(on_lanes(options, {1, 0, 0}, HeadStage::kOrdered)).front();
    float largest = 0, difference = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      largest = std::max(largest, std::abs(wanted[0][i]));
      const float apart = std::abs(row[i] - wanted[0][i]);
      difference = std::max(difference, std::isnan(apart) ? INFINITY : apart);
    }
    return difference / largest;
  };
  const float of_all = distance(all);
  EXPECT_LT(of_all, 0.01f);
  EXPECT_GT(distance(one_lane()), 4 * of_all);
}

// In gemma2 every second layer sees a window, and scores are capped.
TEST_F(HeadLanes, S6WindowsAndSoftCapsChangeNoBit) {
  TinyModel model = test_support::tiny_model("gemma2");
  model.context = kHeadContext;
  const TinyModelFile file(model);
  prepare::Options one = one_lane();
  one.model.file = file.path();
  const auto row_of = [&](const prepare::Options& options) {
    Engine engine(options);
    Session session(engine);
    session.prefill(test_support::random_tokens(model, 896, 3));
    return HeadRow(session.logits().begin(), session.logits().end());
  };
  const HeadRow wanted = row_of(one);
  EXPECT_EQ(row_of(on_lanes(one, {1, 0, 0}, HeadStage::kOrdered)), wanted);
  prepare::Options full = one;
  full.prompts.attention = plan::AttentionForm::kFull;
  full.prompts.attention_share.reset();
  EXPECT_NE(row_of(full), wanted);
}

// A head keeps its own share, wherever its parts run. A kept plan hands shares over, which count
// where none was asked for.
TEST_F(HeadLanes, S3S6SharesOfHeadsChangeNoBit) {
  const TinyModel model = model_of_heads();
  prepare::Options by_head = one_lane();
  for (size_t i = 0; i < model.n_layers * model.n_heads; ++i) {
    by_head.prompts.head_shares.push_back(0.1f * static_cast<float>(1 + i % 4));
  }
  EXPECT_EQ(rows_of(by_head), rows_of(one_lane()));  // a share was asked for
  by_head.prompts.attention_share.reset();
  const std::vector<HeadRow> wanted = rows_of(by_head);
  EXPECT_NE(wanted, rows_of(one_lane()));
  EXPECT_EQ(rows_of(on_lanes(by_head, {1, 0, 0}, HeadStage::kOrdered)), wanted);
  EXPECT_EQ(rows_of(on_lanes(by_head, {0, 1, 1}, HeadStage::kFused)), wanted);
}

// Only tuning leaves heads out, on one lane. A task of such a head would attend.
TEST_F(HeadLanes, S3S6AHeadThatIsLeftOutIsNoTask) {
  prepare::Options left_out = on_lanes(one_lane(), {1, 0, 0}, HeadStage::kOrdered);
  left_out.prompts.attention_share.reset();
  left_out.prompts.head_shares.assign(model_of_heads().n_layers * model_of_heads().n_heads, 0.5f);
  left_out.prompts.head_shares[1] = plan::kLeftOut;
  EXPECT_DEATH(Engine{left_out}, "is_left_out");
}

TEST_F(HeadLanes, S6CompanyChangesNoBit) {
  const std::vector<text::Token> prompts[] = {tokens(700, 700), tokens(640, 640), tokens(930, 930)};
  const auto wanted = test_support::answers_of(one_lane(), prompts, false);
  for (const bool is_together : {false, true}) {
    const prepare::Options lanes = on_lanes(one_lane(), {1, 0, 0}, HeadStage::kOrdered);
    EXPECT_EQ(test_support::answers_of(lanes, prompts, is_together), wanted) << is_together;
  }
}

// What heads hand on, and the lists of their lanes, are reckoned before they are taken.
TEST_F(HeadLanes, S6NoMoreMemoryIsTakenThanWasReckoned) {
  for (const std::vector<int>& lanes : {std::vector<int>{1, 0, 0}, {0, 1, 0}}) {
    prepare::Options options = on_lanes(one_lane(), lanes, HeadStage::kOrdered);
    const auto taken_of = [&](Engine& engine) {
      Session session(engine);
      session.prefill(tokens(static_cast<size_t>(engine.plan().context) - 1));
      plan::Ledger taken = engine.ledger();
      enter_taken(engine, &taken);
      return taken;
    };
    Engine engine(options);
    const plan::Ledger expected = prepare::expected_memory(
        options, engine.blueprint(), engine.weights(), engine.plan(), engine.memory());
    // A prompt takes no memory of lanes beyond what making the engine took.
    plan::Ledger made = engine.ledger();
    enter_taken(engine, &made);
    const plan::Ledger taken = taken_of(engine);
    EXPECT_EQ(taken.bytes(plan::Owner::kLanes), made.bytes(plan::Owner::kLanes));
    for (int i = 0; i < plan::kOwners; ++i) {
      const auto owner = static_cast<plan::Owner>(i);
      const size_t more = owner == plan::Owner::kLanes ? 64 << 10 : 0;
      EXPECT_GE(expected.bytes(owner) + more, taken.bytes(owner)) << plan::owner_name(owner);
    }
    EXPECT_GT(taken.bytes(plan::Owner::kHeads), 0u);
    // A sanitizer's own memory counts as the program's, and is not the same in two engines.
    if (!test::AllocationCounter::is_on()) continue;
    // Within a limit the context is shorter, and the bits are the same.
    options.memory.context = 0;
    options.memory.limit_bytes = expected.total_bytes() - expected.bytes(plan::Owner::kHeads) / 5;
    options.memory.held_bytes = engine.memory().program_bytes;
    Engine limited(options);
    EXPECT_LT(limited.plan().context, kHeadContext);
    EXPECT_GT(limited.plan().context, 640);
    EXPECT_LE(taken_of(limited).total_bytes(), options.memory.limit_bytes + (64 << 10));
    EXPECT_EQ(rows_of(limited, 640), rows_of(one_lane(), 640));
  }
}

TEST_F(HeadLanes, S4FixedScalesAreTheSameOnOneLaneAndOnTwo) {
  const std::vector<HeadRow> as_they_come = rows_of(one_lane(), 896);
  std::vector<std::vector<HeadRow>> seen = {as_they_come};
  for (const int n : {1, 5, 9}) {
    const std::vector<HeadRow> wanted = rows_of(with_buckets(n), 896);
    for (const HeadStage stage : {HeadStage::kOverlap, HeadStage::kOrdered}) {
      EXPECT_EQ(rows_of(on_lanes(with_buckets(n), {1, 0, 0}, stage), 896), wanted) << n;
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

// A plan from a file does not change, so that it must fix the scales itself.
TEST_F(HeadLanes, S4StrictLanesRefuseAPlanWhoseScalesAreNotFixed) {
  const test::TempFolder folder;
  for (const bool is_fixed : {false, true}) {
    prepare::Options options = is_fixed ? with_buckets(9) : one_lane();
    const Engine engine(options);
    options.plan.file = folder.file("plan.json");
    test::write_whole(options.plan.file,
                      plan::to_json({prepare::plan_identity(engine.file()), engine.plan()}));
    options.prompts = {};
    EXPECT_EQ(engine_refusal(options), "accepted");
    options.lanes.is_strict_npu = true;
    const std::string refusal = engine_refusal(options);
    EXPECT_EQ(refusal == "accepted", is_fixed) << refusal;
    EXPECT_EQ(refusal.find("‹strict-npu›") != std::string::npos, !is_fixed) << refusal;
  }
}

// Other forms have no fixed scales: these are refused, whether an option or a plan asks for them.
TEST_F(HeadLanes, S4StrictLanesRefuseFormsThatFindScalesOfTheirOwn) {
  const test::TempFolder folder;
  for (const plan::AttentionForm form : {plan::AttentionForm::kSparse, plan::AttentionForm::kInt8,
                                         plan::AttentionForm::kBlock, plan::AttentionForm::kFull}) {
    prepare::Options options = one_lane();
    options.prompts.attention = form;
    options.prompts.attention_share.reset();
    const Engine engine(options);
    options.lanes.is_strict_npu = true;
    // Blocks are chosen by floats.
    const bool is_fixed = form == plan::AttentionForm::kBlock || form == plan::AttentionForm::kFull;
    const auto expect = [&](const std::string& refusal) {
      EXPECT_EQ(refusal == "accepted", is_fixed) << refusal;
      EXPECT_EQ(refusal.find("‹attention› query") != std::string::npos, !is_fixed) << refusal;
    };
    expect(engine_refusal(options));
    options.plan.file = folder.file("plan.json");
    test::write_whole(options.plan.file,
                      plan::to_json({prepare::plan_identity(engine.file()), engine.plan()}));
    options.prompts = {};
    expect(engine_refusal(options));
  }
}

// An order is planned only where it can change anything.
TEST_F(HeadLanes, S7LockStepAndOneLaneHaveNoPlannedOrder) {
  prepare::Options one = one_lane();
  one.prompts.attention_lanes = {0, 0, 0};
  EXPECT_FALSE(machines::orders_heads(Engine(one).plan()));
  EXPECT_EQ(rows_of(one), rows_of(one_lane()));
  prepare::Options two = on_lanes(one_lane(), {1, 0, 0}, HeadStage::kOrdered);
  EXPECT_TRUE(machines::orders_heads(Engine(two).plan()));
  two.prompts.order = plan::Order::kLockStep;
  EXPECT_FALSE(machines::orders_heads(Engine(two).plan()));
}

TEST_F(HeadLanes, S6LanesOfHeadsPrecedeARuleForAttentionAndSaySo) {
  prepare::Options options = on_lanes(one_lane(), {1, 0, 0}, HeadStage::kOrdered);
  options.lanes.placements = {{"attention", 0, 1}};
  const Engine engine(options);
  const auto sentences = [&](int lane) {
    return solve::broken_rules(engine.blueprint(), engine.plan(), {{"attention", 0, lane}});
  };
  EXPECT_TRUE(sentences(0).empty());  // the exact part and generation are there
  ASSERT_EQ(sentences(1).size(), 1u);
  EXPECT_NE(sentences(1)[0].find("‹attention-lanes›"), std::string::npos) << sentences(1)[0];
  EXPECT_EQ(sentences(1)[0].find("GB"), std::string::npos) << sentences(1)[0];
}

TEST_F(HeadLanes, S5S7FusedLaunchesAndAPlannedOrderShowInTheTrace) {
  const TinyModel model = model_of_heads();
  for (const HeadStage stage : kHeadStages) {
    Engine engine(on_lanes(one_lane(), {1, 0, 0}, stage));
    Session session(engine);
    Trace trace(engine.passes().trace_rows());
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
    EXPECT_EQ(n_estimates, stage < HeadStage::kFused ? n_blocks * n_heads : n_blocks * 2);
    const schedule::PlanningTime* planning = engine.passes().chunk_policy->planning();
    ASSERT_EQ(planning != nullptr, stage == HeadStage::kOrdered);
    if (planning != nullptr) {
      EXPECT_EQ(planning->n_plans, n_blocks);
    }
  }
}

// Returns how many estimates of a prompt's heads ran while another lane selected or computed.
size_t n_overlaps(const std::vector<TraceEvent>& events) {
  size_t n = 0;
  for (const TraceEvent& estimate : events) {
    if (std::string_view(estimate.name) != "estimate") continue;
    n += std::any_of(events.begin(), events.end(), [&](const TraceEvent& other) {
      const std::string_view name = other.name;
      return (name == "select" || name == "exact") && other.start_us < estimate.end_us &&
             estimate.start_us < other.end_us;
    });
  }
  return n;
}

// One chunk is under way at a time, so that only heads can overlap. Where other programs keep the
// cores, a prompt may show nothing, and the next one is looked at.
TEST_F(HeadLanes, S6EstimatesRunWhileEarlierHeadsAreComputed) {
  for (const HeadStage stage : kHeadStages) {
    prepare::Options options = on_lanes(one_lane(), {1, 0, 0}, stage);
    options.prompts.chunks_in_flight = 1;
    Engine engine(options);
    size_t n = 0;
    for (uint64_t prompt = 0; prompt < 20 && n == 0; ++prompt) {
      Session session(engine);
      Trace trace(engine.passes().trace_rows());
      session.watch({.trace = &trace});
      session.prefill(tokens(896, prompt));
      n = n_overlaps(trace.events());
      if (stage == HeadStage::kInTurn) {
        EXPECT_EQ(n, 0u);
      }
    }
    EXPECT_EQ(n > 0, stage != HeadStage::kInTurn) << plan::head_stage_name(stage);
  }
}

TEST_F(HeadLanes, WhatDoesNotFitIsASentence) {
  EXPECT_NE(engine_refusal(on_lanes(one_lane(), {2, 0, 0}, HeadStage::kOrdered)).find("lane 2"),
            std::string::npos);
  EXPECT_NE(engine_refusal(on_lanes(one_lane(), {1, 0}, HeadStage::kOrdered)).find("three lanes"),
            std::string::npos);
  prepare::Options unknown = one_lane();
  unknown.prompts.attention_buckets = 9;
  EXPECT_NE(engine_refusal(unknown).find("troika tune"), std::string::npos);
  EXPECT_NE(engine_refusal(with_buckets(3)).find("‹attention-buckets› 3"), std::string::npos);
  prepare::Options cut = on_lanes(one_lane(), {1, 0, 0}, HeadStage::kOrdered);
  cut.lanes.cuts = {plan::cut_from_text("attention=heads:0:1,1:1")};
  for (const char* name : {"‹cut› attention", "‹attention-lanes›"}) {
    EXPECT_NE(engine_refusal(cut).find(name), std::string::npos) << engine_refusal(cut);
  }
  cut.lanes.cuts = {plan::cut_from_text("attention@step=heads:0:1,1:1")};
  EXPECT_EQ(rows_of(cut), rows_of(one_lane()));
  prepare::Options chunk = with_buckets(9);
  chunk.prompts.chunk = 100;
  EXPECT_NE(engine_refusal(chunk).find("divides tiles of 64"), std::string::npos);
}

}  // namespace
}  // namespace troika
