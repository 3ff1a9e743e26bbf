#include "papers/reproduce_sd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "papers/npu_runs.h"
#include "papers/sd_runs.h"
#include "tests/support/repository.h"

namespace troika::papers {
namespace {

const std::string kPhonesOfSd = test::repository_file("phones");
const SdTask kSummary{"summary", 1000, 100, 3.6, 4.21};

TEST(ReproduceSd, D1V3TheTestRowsOfThePaper) {
  const PhoneFolder folder = read_phone_folder(kPhonesOfSd);
  const TestReport report = simulate_sd_npu(folder);
  std::set<std::string> ids;
  int n_inputs = 0;
  for (const TestRow& row : report.rows) {
    ids.insert(row.base.row->id);
    if (row.base.row->use == "input") {
      EXPECT_FALSE(row.base.simulated.has_value());
      EXPECT_FALSE(row.reason.empty());
      ++n_inputs;
      continue;
    }
    EXPECT_EQ(row.base.row->use, "test") << row.base.row->id;
    if (!row.base.simulated) {
      EXPECT_FALSE(row.reason.empty()) << row.base.row->id;
      continue;
    }
    ASSERT_TRUE(row.error().has_value()) << row.base.row->id;
    EXPECT_TRUE(std::isfinite(*row.error())) << row.base.row->id;
    EXPECT_TRUE(!row.highest || row.kind == TestKind::kRange) << row.base.row->id;
    EXPECT_GT(*row.base.simulated, 0.0) << row.base.row->id;
  }
  EXPECT_EQ(n_inputs, 12 * 4);
  // Table 3 is fifteen cells, of which six look computed.
  for (int i = 20; i <= 34; ++i) {
    const std::string id = "df0" + std::to_string(i);
    EXPECT_EQ(ids.count(id), 1u) << id;
  }
  const auto n_not_counted = std::count_if(
      report.rows.begin(), report.rows.end(),
      [](const auto& r) { return r.base.row->where == "Table 3" && !r.reason.empty(); });
  EXPECT_EQ(n_not_counted, 6);
  EXPECT_GE(report.count(TestKind::kValue), 9);
  EXPECT_GE(report.count(TestKind::kRange), 15);
}

TEST(ReproduceSd, D1PromptsTakeTheTimeOfTheBackendsOwnGraph) {
  SdRuns sd(kPhonesOfSd);
  NpuRuns npu(kPhonesOfSd);
  const NpuRun in_order{"qwen1.5-1.8b", 512, NpuStep::kOutlier, 100};
  const double backend_s = npu.result(in_order).prefill.seconds;
  const double prompt_s = sd.prompt("qwen1.5-1.8b", "8gen3", 512, kSdPromptShape).seconds;
  // They differ in the lane of the head.
  EXPECT_NEAR(prompt_s / backend_s, 1.0, 0.05);
  // Not by the line of passes that verify drafts.
  EXPECT_LT(2 * prompt_s, sd.prompt("qwen1.5-1.8b", "8gen3", 512, kSdStepShape).seconds);
}

// What was measured holds attention and handovers, so that nothing is added to it.
TEST(ReproduceSd, D3APassTakesWhatWasMeasured) {
  SdRuns runs(kPhonesOfSd);
  const SdTask task{"", 1500, 200, 3.6, 4.21};
  const SdRequest request = runs.request("qwen2.5-1.5b", "8gen2", SdSystem::kNpu, task);
  EXPECT_NEAR(1e3 * request.steps.seconds / task.n_output / 51.1, 1.0, 0.04);  // df002
}

// K19: in this paper the NPU of the 8 Gen 3 is the slow one, against the specifications.
TEST(ReproduceSd, D3TheGraphForBothIsSlowerOnThe8Gen3) {
  SdRuns runs(kPhonesOfSd);
  const auto seconds = [&](const char* phone) {
    return runs.prompt("qwen2.5-1.5b", phone, 1500, kSdOneShape).seconds;
  };
  EXPECT_GT(seconds("8gen3"), 1.15 * seconds("8gen2"));
  EXPECT_GT(seconds("8gen2"), seconds("8elite"));
}

TEST(ReproduceSd, D1TheSwitchIsHiddenInThePrompt) {
  SdRuns runs(kPhonesOfSd);
  for (const char* model : {"qwen2.5-0.5b", "llama-3.2-3b"}) {
    const SwitchedPrompt switched = runs.switched_prompt(model, "8gen2", 1000);
    const double plain_s = runs.prompt(model, "8gen2", 1000, kSdPromptShape).seconds;
    const double load_s = runs.whole_load_s(model, "8gen2");
    // Less than loading behind the prompt, or than sub-chunks all the time.
    EXPECT_LT(std::max(switched.cost.seconds, switched.switched_s), plain_s + load_s) << model;
    EXPECT_LT(switched.cost.seconds, runs.prompt(model, "8gen2", 1000, kSdStepShape).seconds);
    EXPECT_GE(switched.cost.seconds, plain_s * (1 - 1e-9));
    EXPECT_GT(switched.n_switched, 0);
    // The next prompt begins in the step's layout, and goes back where that pays.
    const double steps_s = runs.prompt(model, "8gen2", 1000, kSdStepShape).seconds;
    const SwitchedPrompt next = runs.switched_prompt(model, "8gen2", 1000, schedule::Layout::kStep);
    EXPECT_LE(next.cost.seconds, steps_s);
    EXPECT_GE(next.cost.seconds, switched.cost.seconds);
  }
}

TEST(ReproduceSd, D1TheTraceShowsLoadsBesideBlocks) {
  const PhoneFolder folder = read_phone_folder(kPhonesOfSd);
  Trace trace({"blocks", "flash"});
  trace_layout_switch(folder, &trace);
  const std::vector<TraceEvent> events = trace.events();
  int n_loads = 0, n_hidden = 0, last_block = 1000;
  double blocks_end_us = 0.0, load_end_us = 0.0;
  for (const TraceEvent& event : events) {
    if (event.lane == 0) blocks_end_us = std::max(blocks_end_us, event.end_us);
  }
  for (const TraceEvent& event : events) {
    if (event.lane != 1) continue;
    ++n_loads;
    EXPECT_LT(event.block, last_block);      // from the last block backwards
    EXPECT_GE(event.start_us, load_end_us);  // one at a time
    last_block = event.block;
    load_end_us = event.end_us;
    n_hidden += event.end_us <= blocks_end_us;
  }
  EXPECT_GT(n_loads, 14);  // the others begin behind the prompt
  EXPECT_GE(n_hidden + 1, n_loads);
  // A block that was loaded is computed in the step's layout from then on.
  for (const TraceEvent& load : events) {
    for (const TraceEvent& block : events) {
      if (load.lane != 1 || block.lane != 0 || block.block != load.block) continue;
      EXPECT_EQ(std::string(block.name), block.start_us >= load.end_us ? "blocks" : "panels");
    }
  }
}

// K16: the cores have time for it beside the NPU, but for the last chunk.
TEST(ReproduceSd, D2CalibrationGoesOnBesideTheNextChunk) {
  SdRuns runs(kPhonesOfSd);
  SdTask task{"", 1024, 100, 2.0, 2.0};
  const SdRequest ours = runs.request("qwen2.5-1.5b", "8gen2", SdSystem::kOurs, task);
  const SdRequest without = runs.request("qwen2.5-1.5b", "8gen2", SdSystem::kNpuGraphSam, task);
  const double added_s = ours.prompt.seconds - without.prompt.seconds;
  const double work_s = 2e-3 * 1024;            // of one core, df008
  EXPECT_GE(added_s, work_s / 5 * 256 / 1024);  // five large cores share the last chunk's
  EXPECT_LT(added_s, work_s / 5);
  EXPECT_NEAR(ours.more_if_behind_s, work_s - added_s, 1e-9);
  EXPECT_EQ(without.more_if_behind_s, 0.0);
  // The energy is that of all of it.
  EXPECT_GT(ours.prompt.joules - without.prompt.joules, 0.85 * work_s / 5 * 4.065);
}

// The 8 Gen 2 is as much faster in prompts as in steps: two files say so.
TEST(ReproduceSd, TheTwoStacksOfThePaperAgreeOnTheNpus) {
  const plan::Stack steps = plan::read_stack(kPhonesOfSd + "/stacks/sd.npu.json");
  const plan::Stack prompts = plan::read_stack(kPhonesOfSd + "/stacks/sd.npu.prompts.json");
  EXPECT_NEAR(prompts.npu.rate_8gen2 / prompts.npu.rate_8gen3,
              steps.npu.rate_8gen2 / steps.npu.rate_8gen3, 1e-3);
}

TEST(ReproduceSd, D6MoreAcceptedTokensAreFasterAndLanesDiffer) {
  SdRuns runs(kPhonesOfSd);
  const auto steps_s = [&](SdSystem system, const SdTask& task) {
    return runs.request("qwen2.5-0.5b", "8gen2", system, task).steps.seconds;
  };
  SdTask better = kSummary;
  better.sam_accepted = 5.0;
  EXPECT_LT(steps_s(SdSystem::kNpuSam, better), steps_s(SdSystem::kNpuSam, kSummary));
  EXPECT_EQ(steps_s(SdSystem::kNpuEagle, better), steps_s(SdSystem::kNpuEagle, kSummary));
  EXPECT_LT(steps_s(SdSystem::kNpuSam, kSummary), steps_s(SdSystem::kNpu, kSummary));
  EXPECT_NE(steps_s(SdSystem::kCpu, kSummary), steps_s(SdSystem::kNpu, kSummary));
  // A verification of a few rows costs less than as many steps.
  EXPECT_LT(steps_s(SdSystem::kNpuSam, {"", 1000, 100, 1.0, 1.0}),
            kSdRows * steps_s(SdSystem::kNpu, kSummary));
  EXPECT_THROW(runs.request("no-such-model", "8gen2", SdSystem::kNpu, kSummary), Error);
}

}  // namespace
}  // namespace troika::papers
