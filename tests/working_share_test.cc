// Lanes are busy for no more than a share of the time (H14): what they compute stays the same, the
// trace keeps to the cap, and a game that draws meanwhile has its frames in time.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "base/trace.h"
#include "lanes/threaded_lane.h"
#include "measure/simulate.h"
#include "plan/plan_json.h"
#include "tests/support/prompt_case.h"
#include "tests/support/repository.h"
#include "tests/support/tiny_engine.h"

namespace troika {
namespace {

using engine::Session;
using test_support::copy_of;
using test_support::TinyEngine;
using test_support::TinyModel;

constexpr int kBusyContext = 300;

TinyModel busy_model() {
  TinyModel model = test_support::small_model("llama");
  model.type = test_support::kQ8_0;
  model.context = kBusyContext;
  return model;
}

prepare::Options beside_a_game(int busy_percent, bool has_game) {
  prepare::Options options;
  options.phone.file = test::repository_file("phones/8gen3.json");
  options.phone.stack = "heterollm";
  options.phone.has_values = false;
  options.phone.has_rendering = has_game;
  options.phone.processors = {lanes::Processor::kGpu};
  options.phone.prompt_shapes = {256};
  options.memory.context = 512;
  options.model.file = "internlm-1.8b";
  options.lanes.caps = {{0, busy_percent}};
  return options;
}

prepare::Options on_two_lanes() {
  const std::vector<int> cores = usable_core_numbers();
  prepare::Options options;
  options.memory.context = kBusyContext;
  options.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
  return options;
}

// Counts the tasks of all lanes that came while the lane's thread was awake.
int64_t n_awake_of(const engine::Engine& engine) {
  int64_t n = 0;
  for (const lanes::Lane* lane : engine.machine().lanes()) {
    const auto* const threaded = dynamic_cast<const lanes::ThreadedLane*>(lane);
    n += threaded != nullptr ? threaded->n_awake() : 0;
  }
  return n;
}

measure::SimulatedRate prompt_of(const prepare::Options& options) {
  engine::Engine engine(options);
  Session session(engine);
  measure::MeasureOptions measure;
  measure.prefill_tokens = {256};
  measure.decode_tokens = 0;
  return measure::simulate(session, measure).prefill[0];
}

TEST(LaneBusy, H14ACapChangesNoBit) {
  if (usable_core_numbers().size() < 2) GTEST_SKIP() << "two lanes need two cores";
  const TinyModel model = busy_model();
  prepare::Options options = on_two_lanes();
  options.lanes.placements = {{"ffn", 0, 1}};
  prepare::Options capped = options;
  capped.lanes.caps = {{1, 50}};
  TinyEngine free(model, options), rests(model, capped);
  EXPECT_EQ(rests.engine->plan().lanes[1].busy_percent, 50);
  const auto prompt = test_support::random_tokens(model, 100, 3);
  for (TinyEngine* tiny : {&free, &rests}) tiny->session->prefill(prompt);
  EXPECT_EQ(copy_of(free.session->logits()), copy_of(rests.session->logits()));
  for (TinyEngine* tiny : {&free, &rests}) tiny->session->append(5);
  EXPECT_EQ(copy_of(free.session->logits()), copy_of(rests.session->logits()));
}

TEST(LaneBusy, H14TheCapIsKeptInTheTrace) {
  for (const int percent : {30, 75}) {
    engine::Engine engine(beside_a_game(percent, true));
    Session session(engine);
    Trace trace(engine.passes().trace_rows());
    session.watch({.trace = &trace});
    session.prefill(std::vector<text::Token>(256, 1));
    const std::vector<TraceEvent> events = trace.events();
    ASSERT_GT(events.size(), 50u);
    double busy_us = 0.0;
    for (size_t i = 0; i + 1 < events.size(); ++i) {
      const double us = events[i].end_us - events[i].start_us;
      busy_us += us;
      const double begin_us = events[i].start_us;
      EXPECT_GE(events[i + 1].start_us - begin_us, us * 100 / percent * (1 - 1e-9));
    }
    const double span_us = events.back().start_us - events.front().start_us;
    EXPECT_LE(busy_us / span_us, percent / 100.0 * (1 + 1e-9));
  }
}

// Lanes of cores rest behind their tasks, too. The end that the trace notes comes a little behind
// the end that the lane rests from, and where the system takes the core away in between, it comes
// much later: so this looks at the task in the middle.
TEST(LaneBusy, H14LanesOfCoresKeepTheCapInTheTrace) {
  if (usable_core_numbers().size() < 2) GTEST_SKIP() << "two lanes need two cores";
  const TinyModel model = busy_model();
  prepare::Options options = on_two_lanes();
  options.prompts.chunk = 32;
  options.lanes.cuts = {plan::cut_from_text("ffn=rows:0:1,1:1")};
  const int percents[] = {30, 15};
  options.lanes.caps = {{0, percents[0]}, {1, percents[1]}};
  TinyEngine tiny(model, options);
  Trace trace(tiny.engine->passes().trace_rows());
  tiny.session->watch({.trace = &trace});
  tiny.session->prefill(test_support::random_tokens(model, 250, 3));
  for (int lane = 0; lane < 2; ++lane) {
    std::vector<TraceEvent> events = trace.events();
    std::erase_if(events, [&](const TraceEvent& event) { return event.lane != lane; });
    std::vector<double> shares;  // of the time from a task's start to the next one's
    for (size_t i = 0; i + 1 < events.size(); ++i) {
      const double us = events[i].end_us - events[i].start_us;
      shares.push_back(us / (events[i + 1].start_us - events[i].start_us));
    }
    ASSERT_GT(shares.size(), 10u);
    const auto middle = shares.begin() + static_cast<ptrdiff_t>(shares.size() / 2);
    std::nth_element(shares.begin(), middle, shares.end());
    EXPECT_LE(*middle, percents[lane] / 100.0) << "lane " << lane;
  }
}

TEST(LaneBusy, H14AGameTakesTimeAndACapGivesItItsFrames) {
  const measure::SimulatedRate alone = prompt_of(beside_a_game(100, false));
  const measure::SimulatedRate beside = prompt_of(beside_a_game(100, true));
  const measure::SimulatedRate capped = prompt_of(beside_a_game(50, true));
  EXPECT_EQ(alone.frames.n_periods, 0);
  EXPECT_GT(beside.frames.n_periods, 10);
  EXPECT_GT(beside.seconds, alone.seconds);
  EXPECT_GT(capped.seconds, 1.5 * alone.seconds);
  EXPECT_GT(capped.frames_per_s(), beside.frames_per_s());
  // A queue that is always full leaves frames no time.
  prepare::Options full = beside_a_game(100, true);
  full.phone.queue_depth = 1024;
  EXPECT_LT(prompt_of(full).frames_per_s(), 2.0);
  full.lanes.caps = {{0, 50}};
  EXPECT_GT(prompt_of(full).frames_per_s(), 2.0);
}

TEST(LaneBusy, H14APlanKeepsIt) {
  plan::PlanFile file;
  file.plan.context = 64;
  plan::cap_lanes({{0, 40}}, &file.plan.lanes);
  file.plan.handover = plan::HandoverKind::kFast;
  const plan::PlanFile read = plan::plan_from_json(plan::to_json(file), "plan.json");
  EXPECT_EQ(read.plan.lanes[0].busy_percent, 40);
  EXPECT_EQ(read.plan.handover, plan::HandoverKind::kFast);
  EXPECT_THROW(plan::cap_lanes({{1, 40}}, &file.plan.lanes), UsageError);
  EXPECT_THROW(plan::cap_lanes({{0, 0}}, &file.plan.lanes), UsageError);
  EXPECT_THROW(plan::cap_lanes({{0, 101}}, &file.plan.lanes), UsageError);
}

// Fast handovers give the bits of a run whose lanes hand over in the ordinary way.
TEST(LaneBusy, H8FastHandoversChangeNoBit) {
  if (usable_core_numbers().size() < 2) GTEST_SKIP() << "two lanes need two cores";
  const TinyModel model = busy_model();
  prepare::Options options = on_two_lanes();
  options.lanes.cuts = {plan::cut_from_text("ffn=rows:0:1,1:1")};
  prepare::Options fast = options;
  fast.lanes.has_fast_handover = true;
  TinyEngine ordinary(model, options), quick(model, fast);
  EXPECT_EQ(quick.engine->plan().handover, plan::HandoverKind::kFast);
  const auto prompt = test_support::random_tokens(model, 100, 3);
  for (TinyEngine* tiny : {&ordinary, &quick}) tiny->session->prefill(prompt);
  for (int i = 0; i < 4; ++i) {
    for (TinyEngine* tiny : {&ordinary, &quick}) tiny->session->append(5 + i);
    EXPECT_EQ(copy_of(ordinary.session->logits()), copy_of(quick.session->logits()));
  }
  EXPECT_EQ(n_awake_of(*ordinary.engine), 0);
  // Where others take the cores, each wait may last too long for a thread to stay awake.
  for (int i = 0; i < 100 && n_awake_of(*quick.engine) == 0; ++i) quick.session->append(i);
  EXPECT_GT(n_awake_of(*quick.engine), 0);
}

}  // namespace
}  // namespace troika
