#include "papers/npu/reproduce_npu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "machines/phone_setup.h"
#include "papers/npu/npu_memory.h"
#include "papers/npu/npu_runs.h"
#include "plan/plan_json.h"
#include "tests/support/repository.h"
#include "tests/support/temp_folder.h"

namespace troika::papers {
namespace {

const std::string kPhonesOfNpu = test::repository_file("phones");

prepare::Options options_of(NpuStage stage) {
  prepare::Options options = npu_options(kPhonesOfNpu, "qwen1.5-1.8b");
  options.phone.npu_stage = stage;
  options.prompts.chunk = 256;
  options.memory.context = 1100;
  return options;
}

TEST(ReproduceNpu, N12V3TheTestRowsOfThePaper) {
  const PhoneFolder folder = read_phone_folder(kPhonesOfNpu);
  const TestReport report = simulate_llm_npu(folder);
  EXPECT_GE(report.count(), 40);
  std::set<std::string> ids;
  std::map<std::string, double> rival_decode_s;
  int n_ranges = 0;
  for (const TestRow& row : report.rows) {
    EXPECT_EQ(row.base.row->use.rfind("test", 0), 0u) << row.base.row->id;
    ids.insert(row.base.row->id);
    if (!row.base.simulated) {
      EXPECT_FALSE(row.reason.empty()) << row.base.row->id;
      continue;
    }
    ASSERT_TRUE(row.error().has_value()) << row.base.row->id;
    EXPECT_TRUE(std::isfinite(*row.error())) << row.base.row->id;
    if (row.highest) {
      ++n_ranges;
      EXPECT_GT(*row.highest, *row.base.simulated) << row.base.row->id;
    }
    // Models with SiLU have half of their neurons silent, whatever their name.
    if (row.base.group == "PowerInfer-2, whole tasks (Table 5)") {
      EXPECT_TRUE(row.base.inputs.ends_with(", 50 % of the neurons fire")) << row.base.inputs;
      if (row.base.value->name == "decode") rival_decode_s[row.base.row->id] = *row.base.simulated;
    }
    // Rows in which the paper contradicts itself do not count.
    EXPECT_TRUE(row.base.row->id != "nf147" || !row.reason.empty());
  }
  // Three tokens behind a prompt of twice the length read more keys and values.
  EXPECT_GT(rival_decode_s.at("nf068"), 1.05 * rival_decode_s.at("nf114"));
  EXPECT_GT(rival_decode_s.at("nf072"), rival_decode_s.at("nf118"));
  for (const char* id : {"nf055", "nf074", "nf172", "nf187", "nf193", "nf195", "nf197"}) {
    EXPECT_EQ(ids.count(id), 1u) << id;
  }
  EXPECT_GE(n_ranges, 15);
  // The report has every row of the paper that is marked as a test.
  for (const plan::PublishedRow& row : folder.published) {
    if (row.paper == "llm.npu" && row.use == "test") {
      EXPECT_EQ(ids.count(row.id), 1u) << row.id;
    }
  }
  for (const TestSubject part :
       {TestSubject::kPrompt, TestSubject::kDecode, TestSubject::kRecombined}) {
    EXPECT_GE(report.count_of(part), 20) << subject_name(part);
  }
  EXPECT_GT(report.count_orderings(Figured::kClose).n, 0);
}

TEST(ReproduceNpu, V3ATaskWithoutANumberOfItsPrefillIsASentence) {
  const test::TempFolder temporary;
  const std::string phones = temporary.file("phones");
  std::filesystem::copy(kPhonesOfNpu, phones, std::filesystem::copy_options::recursive);
  const std::string path = phones + "/published/llm.npu.json";
  auto published = nlohmann::json::parse(test::read_whole(path));
  for (nlohmann::json& row : published["rows"]) {
    if (row["id"] != "nf078") continue;
    nlohmann::json& prefill = row["values"][1];
    prefill.erase("published");
    prefill["published_range"] = {1.0, 2.0};
  }
  test::write_whole(path, published.dump());
  const PhoneFolder folder = read_phone_folder(phones);
  EXPECT_EQ(test::message_of<Error>([&] { simulate_llm_npu(folder); }),
            "The published row 'nf078' has no value 'prefill'.");
}

// A CPU takes a quarter of the time of 256 tokens for 64, because nothing pads its prompts.
TEST(ReproduceNpu, PromptsOnOneProcessorAreNotPadded) {
  NpuRuns runs(kPhonesOfNpu);
  const auto seconds = [&](int n_prompt) {
    return runs.result({"qwen1.5-1.8b", n_prompt, std::nullopt, 85, "8gen2", {Processor::kCpu}})
        .prefill.seconds;
  };
  EXPECT_LT(seconds(64), 0.6 * seconds(256));
  EXPECT_LT(seconds(520), 0.7 * seconds(1024));
}

TEST(ReproduceNpu, N9_A7BModelIsHeldToTheMemoryOfTheNpu) {
  NpuRuns runs(kPhonesOfNpu);
  NpuRun run{"llama-2-7b", 512};
  const NpuResult limited = runs.result(run);
  run.has_memory_limit = false;
  const NpuResult& free = runs.result(run);
  EXPECT_EQ(free.npu_share, 1.0);
  EXPECT_LT(limited.npu_share, 4.0 / 6.5);
  EXPECT_GT(limited.npu_share, 0.5);
  EXPECT_GT(limited.prefill.seconds, 2.0 * free.prefill.seconds);
}

TEST(ReproduceNpu, N12EachStepOfTheAblationIsFaster) {
  NpuRuns runs(kPhonesOfNpu);
  double before = 1e9;
  for (const NpuStage stage :
       {NpuStage::kNaive, NpuStage::kChunk, NpuStage::kOutlier, NpuStage::kOutOfOrder}) {
    NpuRun run{"qwen1.5-1.8b", 512, stage};
    const double seconds = runs.result(run).prefill.seconds;
    EXPECT_LT(seconds, before) << static_cast<int>(stage);
    before = seconds;
  }
  prepare::Options options = options_of(NpuStage::kOutlier);
  options.phone.npu_prune = 101;
  EXPECT_THROW(engine::Engine{options}, UsageError);
  options = options_of(NpuStage::kOutlier);
  options.phone.processors = {lanes::Processor::kNpu};
  EXPECT_THROW(engine::Engine{options}, UsageError);
}

// A run with the plan file repeats the run in which the file was made, whatever the stage.
TEST(ReproduceNpu, N12ThePlanFileHoldsTheStage) {
  for (const NpuStage stage :
       {NpuStage::kNaive, NpuStage::kChunk, NpuStage::kOutlier, NpuStage::kOutOfOrder}) {
    prepare::Options options = options_of(stage);
    options.phone.npu_prune = 40;
    const auto seconds = [&](engine::Engine& engine) {
      engine::Session session(engine);
      return measure::simulate_answer(session, 512, 1).prefill[0].seconds;
    };
    engine::Engine first(options);
    const std::string text = plan::to_json({{}, first.plan()});
    options.plan.exact = plan::plan_from_json(text, "plan.json").plan;
    EXPECT_EQ(options.plan.exact->npu, (plan::NpuPlan{stage, 40}));
    options.phone.npu_stage.reset();
    options.phone.npu_prune = 85;
    engine::Engine again(options);
    EXPECT_EQ(seconds(again), seconds(first)) << static_cast<int>(stage);
  }
}

// Qwen1.5-1.8B runs in chunks of 256 tokens. A chunk needs its own buffers for attention, and
// shares the rest.
TEST(NpuMemory, N2_WhatChunksShareIsThereOnce) {
  double before = -1.0;
  for (const int n_chunks : {1, 2, 4, 8}) {
    const NpuMemory memory = npu_memory(kPhonesOfNpu, "qwen1.5-1.8b", 256 * n_chunks);
    EXPECT_EQ(memory.n_subgraphs, 144);
    EXPECT_EQ(memory.n_shared, 120);
    // All but the buffers of attention is saved, for all chunks but one.
    const double most = 1.0 - 1.0 / n_chunks;
    const double saved = memory.saved_bytes() / memory.unshared_bytes;
    EXPECT_LE(saved, most);
    EXPECT_GE(saved, 0.97 * most);  // is 75 % for four chunks, as the paper prints
    EXPECT_GT(saved, before);
    before = saved;
  }
}

// Gemma-2B has 2,506 million weights with its embedding, which is its head too.
TEST(NpuMemory, ATiedEmbeddingIsThereOnce) {
  EXPECT_NEAR(npu_memory(kPhonesOfNpu, "gemma-2b", 64).model_bytes, 2506.2e6, 0.1e6);
}

TEST(ReproduceNpu, N8SquareShapesAreFasterAndCanBeSwitchedOff) {
  NpuRuns runs(kPhonesOfNpu);
  NpuRun square{"llama-2-7b", 512};
  NpuRun plain = square;
  plain.has_square_shapes = false;
  EXPECT_LT(runs.result(square).prefill.seconds, runs.result(plain).prefill.seconds);
}

TEST(ReproduceNpu, N4OutliersAreComputedWhileTheNpuWorks) {
  prepare::Options options = options_of(NpuStage::kOutlier);
  options.phone.npu_prune = 0;
  engine::Engine engine(options);
  engine::Session session(engine);
  Trace trace({"cpu", "npu"});
  session.watch({.trace = &trace});
  session.prefill(std::vector<cache::Token>(256, 0));
  const std::vector<TraceEvent> events = trace.events();
  int n_shadow = 0, n_beside = 0, n_sum = 0;
  for (const TraceEvent& event : events) {
    n_sum += std::string(event.name) == "sum" ? 1 : 0;
    if (std::string(event.name) != "shadow") continue;
    ++n_shadow;
    EXPECT_EQ(event.lane, 0);
    n_beside += std::any_of(events.begin(), events.end(), [&](const TraceEvent& other) {
      return other.lane == 1 && other.start_us < event.end_us && event.start_us < other.end_us;
    });
  }
  // A block has four inputs: that of q, k and v, of the projection, of gate and up, and of down.
  EXPECT_EQ(n_shadow, 24 * 4);
  EXPECT_EQ(n_sum, n_shadow);
  EXPECT_EQ(n_beside, n_shadow);
  // Pruned blocks have no shadow tasks (N6).
  options.phone.npu_prune = 100;
  engine::Engine pruned(options);
  for (const schedule::Task& task : pruned.graphs().body(plan::Phase::kPrompt, 256).tasks) {
    EXPECT_NE(std::string(task.name), "shadow");
  }
}

TEST(ReproduceNpu, N7OutOfOrderKeepsTheNpuBusier) {
  NpuRuns runs(kPhonesOfNpu);
  NpuRun run{"qwen1.5-1.8b", 1024, NpuStage::kOutlier};
  const double in_order = runs.result(run).npu_busy;
  run.order = plan::Order::kLockStep;
  const double lock_step = runs.result(run).npu_busy;
  run.order = plan::Order::kOutOfOrder;
  const NpuResult& out_of_order = runs.result(run);
  EXPECT_GT(lock_step, in_order);
  EXPECT_GT(out_of_order.npu_busy, lock_step);
  EXPECT_GT(out_of_order.prefill.n_decisions, 0u);
  EXPECT_GT(out_of_order.prefill.decision_us, 0.0);
}

}  // namespace
}  // namespace troika::papers
