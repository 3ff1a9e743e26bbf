// Runs engines on virtual phones, with values and without.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/trace.h"
#include "engine/generate.h"
#include "machines/phone_setup.h"
#include "measure/simulate.h"
#include "plan/plan_json.h"
#include "solve/check.h"
#include "solve/profile/op_shapes.h"
#include "solve/profile/profile_machine.h"
#include "tests/support/repository.h"
#include "tests/support/tiny_engine.h"

namespace troika::measure {
namespace {

const std::string kPhoneFiles = test::repository_file("phones/");

prepare::Options on_phone(const std::string& stack) {
  prepare::Options options;
  options.phone.file = kPhoneFiles + "8gen3.json";
  options.phone.stack = stack;
  return options;
}

prepare::Options timing_of(const std::string& model, const std::string& stack) {
  prepare::Options options = on_phone(stack);
  options.model.file = model;
  options.phone.has_values = false;
  return options;
}

TEST(Phone, V4_ValuesAreThoseOfTheRealPathToTheBit) {
  const std::vector<cache::Token> prompt = {1, 7, 9, 300, 12, 5, 44, 13, 2, 90, 81, 6};
  for (const std::string& architecture : test_support::tiny_architectures()) {
    const auto model = test_support::small_model(architecture);
    test_support::TinyEngine here(model);
    test_support::TinyEngine phone(model, on_phone("llm.npu"));
    ASSERT_NE(phone.engine->phone().machine, nullptr);
    here.session->prefill(prompt);
    phone.session->prefill(prompt);
    EXPECT_EQ(test_support::copy_of(here.session->logits()),
              test_support::copy_of(phone.session->logits()))
        << architecture;
    engine::SamplerOptions greedy;
    greedy.temperature = 0.0f;
    engine::Sampler a(greedy), b(greedy);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(here.session->next(a), phone.session->next(b));
    EXPECT_GT(phone.engine->machine().clock().now_us(), 0.0);
  }
}

TEST(Phone, V4_ValuesDoNotChangeTheTime) {
  const auto model = test_support::small_model();
  test_support::TinyEngine with(model, on_phone("heterollm"));
  prepare::Options only_time = on_phone("heterollm");
  only_time.phone.has_values = false;
  test_support::TinyEngine without(model, only_time);
  const MeasureOptions options = {{5, 40}, 4, 8, 1};
  const Simulation a = simulate(*with.session, options);
  const Simulation b = simulate(*without.session, options);
  ASSERT_EQ(a.prefill.size(), 2u);
  EXPECT_EQ(a.prefill[1].seconds, b.prefill[1].seconds);
  EXPECT_EQ(a.decode.seconds, b.decode.seconds);
  EXPECT_EQ(a.decode.joules, b.decode.joules);
  EXPECT_GT(a.decode.joules_per_token(), 0.0);
}

// Texts that were computed together leave their places, however the simulation ends.
TEST(Phone, TextsThatFindNoRoomTogetherLeaveNoneBehind) {
  prepare::Options options = timing_of("tiny-llama", "heterollm");
  options.memory.context = 64;
  engine::Engine engine(options), fresh(options);
  EXPECT_THROW(simulate_together(engine, 3, 60, 100), Error);
  EXPECT_EQ(engine.passes().sequences.open(), fresh.passes().sequences.open());
  EXPECT_EQ(engine.passes().kv.n_limit(), fresh.passes().kv.n_limit());
}

TEST(Phone, V4_AModelOf47BillionWeightsIsTimedWithoutThem) {
  engine::Engine engine(timing_of("mixtral-8x7b", "heterollm"));
  EXPECT_EQ(engine.blueprint().n_experts, 8);
  engine::Session session(engine);
  const Simulation s = simulate(session, {{256}, 4, 0, 1});
  // A step reads at least the experts that it uses, and no faster than the bus allows.
  EXPECT_GT(s.decode_bytes, 6e9);
  EXPECT_LT(s.decode.tokens_per_s(), s.read_gb_s * 1e9 / s.decode_bytes);
  EXPECT_GT(s.prefill[0].tokens_per_s(), s.decode.tokens_per_s());
}

// A step moves no more over the bus than there is, however few of its neurons fire and whatever
// others take of the bus.
TEST(Phone, AStepStaysWithinWhatIsLeftOfTheBus) {
  const auto share_of_bus = [](const Simulation& s) {
    return s.decode.tokens_per_s() * s.decode_bytes / (s.read_gb_s * 1e9);
  };
  prepare::Options sparse = timing_of("bamboo-7b", "powerinfer-2");
  sparse.phone.neurons.system = plan::NeuronSystem::kXpu;
  sparse.phone.neurons.ffn_share = 1.0;
  engine::Engine by_neuron(sparse);
  engine::Session session(by_neuron);
  const Simulation few = simulate(session, {{}, 4, 32, 1});
  EXPECT_LT(few.decode_bytes, 0.7 * static_cast<double>(by_neuron.weights().bytes_per_step()));
  EXPECT_LE(share_of_bus(few), 1.0);
  EXPECT_GT(share_of_bus(few), 0.3);

  prepare::Options dense = timing_of("qwen1.5-1.8b", "heterollm");
  dense.phone.processors = {lanes::Processor::kGpu};
  double free_gb_s = 0.0;
  for (const double taken_gb_s : {0.0, 40.0}) {
    dense.phone.bus_taken_gb_s = taken_gb_s;
    engine::Engine engine(dense);
    engine::Session session(engine);
    const Simulation s = simulate(session, {{}, 4, 32, 1});
    if (taken_gb_s == 0.0) free_gb_s = s.read_gb_s;
    EXPECT_EQ(s.read_gb_s, free_gb_s - taken_gb_s);
    EXPECT_LE(share_of_bus(s), 1.0 + 1e-9);
    EXPECT_NEAR(s.decode_bytes, bytes_per_step(engine, 34), 0.02 * s.decode_bytes);
  }
}

// Each length of prompts has graphs of its own.
TEST(Phone, GraphsOfAllShapesAreMade) {
  prepare::Options options = timing_of("tiny-llama", "heterollm");
  const auto graphs_s = [&](std::vector<int> shapes) {
    options.phone.prompt_shapes = std::move(shapes);
    engine::Engine engine(options);
    engine::Session session(engine);
    return simulate(session, {{8}, 0, 0, 1}).graphs_s;
  };
  const double together_s = graphs_s({32, 256});
  EXPECT_NEAR(together_s, graphs_s({32}) + graphs_s({256}), 1e-9);
}

TEST(Phone, EveryKnownModelCanBePlannedOnEveryPhoneAndStack) {
  for (const char* phone : {"8gen3", "8gen2", "8plusgen1", "8elite"}) {
    for (const char* stack : {"llm.npu", "heterollm", "shadowattn", "sd.npu", "powerinfer-2"}) {
      prepare::Options options = timing_of("tiny-mixtral", stack);
      options.phone.file = kPhoneFiles + phone + ".json";
      const engine::Engine engine(options);
      EXPECT_EQ(engine.plan().lanes.size(), 3u);
    }
  }
  for (const model::KnownModel& known : model::known_models()) {
    if (known.n_layers > 30) continue;  // leaves out models that only take longer
    const engine::Engine engine(timing_of(std::string(known.name), "llm.npu"));
    for (const solve::ShapeChoice& phase : engine.phone().setup->choice.shapes) {
      for (const double us : phase.single_lane_us) EXPECT_LE(phase.us, us * (1 + 1e-9));
    }
  }
}

TEST(Phone, N9_NoLaneHoldsMoreThanItsMemory) {
  const engine::Engine engine(timing_of("llama-2-13b", "heterollm"));
  const auto lanes = engine.phone().machine->lanes();
  const std::vector<size_t> held =
      solve::held_by_lanes(engine.blueprint(), engine.weights(), engine.plan());
  EXPECT_GT(engine.weights().total_bytes(), lanes[2]->info().memory_limit_bytes);
  EXPECT_GT(held[2], lanes[2]->info().memory_limit_bytes / 2);
  EXPECT_LE(held[2], lanes[2]->info().memory_limit_bytes);
}

TEST(Phone, N8_TheFastestEquivalentShapeIsChosen) {
  const engine::Engine engine(timing_of("qwen1.5-1.8b", "llm.npu"));
  const std::vector<plan::OpTime>& arrangements = engine.phone().setup->arrangements;
  EXPECT_GE(arrangements.size(), 3u);  // come from the NPU, the only lane with a choice
  for (const plan::OpTime& time : arrangements) {
    EXPECT_EQ(engine.plan().lanes[static_cast<size_t>(time.lane)].kind, "npu");
    EXPECT_EQ(time.arrangement, "square");
    EXPECT_GT(time.arrangement_gain, 1.1);  // is less than 1.2, because launches stay as they are
  }
}

// The profiler knows a phone only as lanes. Its predictions for weights that it has not seen are
// near, also where the NPU goes by stages, order and shape.
TEST(Phone, H9_TimesOfAPhonesLanesArePredicted) {
  const lanes::CostModel model = machines::read_cost_model(on_phone("heterollm"));
  lanes::VirtualPhone phone(model, {}, nullptr);
  solve::ProfileOptions options;
  options.arena_bytes = 64u << 20;
  options.budget_us = 1e12;
  options.patience = {0, 1, 1, 0.0};
  options.n_visits = 1;
  for (const plan::OpShape& shape : solve::grid_shapes(tensor::Type::kQ4_0, tensor::Type::kF16)) {
    if (shape.op == model::OpKind::kLinear) options.shapes.push_back(shape);
  }
  const RealClock wall;
  const plan::Profile profile = solve::profile_machine(phone, options, nullptr, wall, {});
  const std::vector<solve::CheckRow> rows = solve::check_predictions(profile, 1);
  ASSERT_EQ(rows.size(), 3u);
  for (const solve::CheckRow& row : rows) {
    const std::string& lane = profile.lanes[static_cast<size_t>(row.lane)].name;
    EXPECT_GT(row.n_held_out, 20) << lane;
    EXPECT_LT(row.tree_median, 0.1) << lane;
    EXPECT_LT(row.tree_worst, 0.5) << lane;
    if (lane == "npu") {
      EXPECT_LT(row.tree_median, 0.5 * row.rate_median);
    }
  }
}

// While the CPU makes a prompt's graphs it is busy, and how many frames a game draws meanwhile is
// not known.
TEST(Phone, N1TheCpuIsBusyWhileItMakesGraphs) {
  const auto simulated = [](bool is_naive) {
    prepare::Options options = timing_of("tiny-llama", "llm.npu");
    options.phone.npu_stage = is_naive ? prepare::NpuStage::kNaive : prepare::NpuStage::kChunk;
    options.phone.has_rendering = true;
    options.prompts.chunk = 512;
    options.memory.context = 1024;
    engine::Engine engine(options);
    engine::Session session(engine);
    return simulate(session, {{512}, 0, 0, 1});
  };
  const Simulation naive = simulated(true), chunk = simulated(false);
  const SimulatedRate& prompt = naive.prefill[0];
  EXPECT_GT(prompt.graphs_s, 0.0);
  EXPECT_EQ(naive.graphs_s, 0.0);
  EXPECT_EQ(chunk.prefill[0].graphs_s, 0.0);
  EXPECT_GT(chunk.graphs_s, 0.0);
  EXPECT_GE(prompt.busy_share[0], prompt.graphs_s / prompt.seconds);
  EXPECT_LE(prompt.busy_share[0], 1.0);
  EXPECT_LT(prompt.busy_share[2], chunk.prefill[0].busy_share[2]);
  EXPECT_GT(prompt.frames_per_s(), 0.0);
  EXPECT_NEAR(prompt.frames_per_s(), chunk.prefill[0].frames_per_s(),
              0.1 * chunk.prefill[0].frames_per_s());
}

// Returns on which lanes each subgraph of a pass of n_tokens ran.
std::map<std::string, std::set<std::string>> lanes_of_pass(engine::Session& session, int n_tokens) {
  Trace trace({"gpu", "npu"});
  session.truncate(0);
  if (n_tokens == 1) session.prefill(std::vector<cache::Token>(256, 0));
  session.watch({.trace = &trace});
  if (n_tokens == 1) {
    session.evaluate(std::vector<cache::Token>{0}, {});
  } else {
    session.prefill(std::vector<cache::Token>(static_cast<size_t>(n_tokens), 0));
  }
  session.watch({});
  std::map<std::string, std::set<std::string>> lanes;
  for (const TraceEvent& event : trace.events()) {
    lanes[event.name].insert(trace.lanes()[static_cast<size_t>(event.lane)]);
  }
  return lanes;
}

// With half floats everywhere, a step runs on the GPU. Products of several tokens run on the NPU,
// which hands over to the GPU for attention.
TEST(Phone, H11_StepsAndPromptsRunOnTheLanesThatWereChosen) {
  prepare::Options options = timing_of("qwen1.5-1.8b", "heterollm");
  options.phone.processors = {lanes::Processor::kGpu, lanes::Processor::kNpu};
  options.phone.constants = {{"npu.steps_in_int8", 0.0}};
  options.memory.context = 1024;
  engine::Engine engine(options);
  engine::Session session(engine);
  const std::set<std::string> gpu = {"gpu"}, npu = {"npu"};
  for (const int n_tokens : {1, 6, 300}) {
    const std::set<std::string>& products = n_tokens > 1 ? npu : gpu;
    const auto lanes = lanes_of_pass(session, n_tokens);
    EXPECT_EQ(lanes.at("ffn"), products) << n_tokens;
    EXPECT_EQ(lanes.at("qkv"), products) << n_tokens;
    EXPECT_EQ(lanes.at("attention"), gpu) << n_tokens;
  }
  // The plan chose the lanes by time, so no lane alone is faster.
  for (const solve::ShapeChoice& shape : engine.phone().setup->choice.shapes) {
    EXPECT_EQ(shape.lanes.at("ffn"), shape.shape.n_rows > 1 ? 1 : 0) << shape.shape.n_rows;
    for (const double us : shape.single_lane_us) EXPECT_LE(shape.us, us * (1 + 1e-9));
  }
}

TEST(Phone, LanesAndPlacesCanBeForced) {
  prepare::Options options = timing_of("tiny-llama", "llm.npu");
  options.phone.processors = {lanes::Processor::kCpu, lanes::Processor::kNpu};
  options.lanes.placements = {{"attention", 0, 0}, {"", 2, 1}};
  const engine::Engine engine(options);
  EXPECT_EQ(engine.phone().machine->lanes().size(), 2u);
  EXPECT_EQ(engine.plan().lane_of("attention", {plan::Phase::kPrompt, 512}), 0);
  EXPECT_EQ(engine.plan().lane_of("ffn", {plan::Phase::kStep, 8}), 1);
}

std::string error_of(const prepare::Options& options) {
  return test::message_of<Error>([&] { const engine::Engine engine(options); });
}

// Sparse attention divides prompts by heads in its own way, and a cut would take its place.
TEST(Phone, S6_SolvedCutsLeaveSparseAttentionItsHeads) {
  prepare::Options options = timing_of("qwen2.5-0.5b", "shadowattn");
  options.phone.processors = {lanes::Processor::kCpu, lanes::Processor::kGpu};
  options.prompts.attention = plan::AttentionForm::kQuery;
  options.memory.context = 256;
  for (const bool solves_cuts : {false, true}) {
    options.lanes.solves_cuts = solves_cuts;
    engine::Engine engine(options);
    engine::Session session(engine);
    const auto lanes = lanes_of_pass(session, 3 * engine.plan().chunk());
    EXPECT_EQ(lanes.count("estimate"), 1u) << solves_cuts;
    EXPECT_EQ(lanes.count("attention"), 0u) << solves_cuts;
  }
  options.lanes.solves_cuts = false;
  options.lanes.cuts = {plan::cut_from_text("attention@prompt=heads:0:1,1:1")};
  EXPECT_NE(error_of(options).find("‹attention› query"), std::string::npos) << error_of(options);
}

// A run with the plan file repeats the run in which the file was made.
TEST(Phone, S6ThePlanFileHoldsHeadsAndLayouts) {
  const auto repeats = [](prepare::Options options) {
    MeasureOptions measured;
    measured.prefill_tokens = {300};
    measured.decode_tokens = 0;
    const auto seconds = [&] {
      engine::Engine engine(options);
      engine::Session session(engine);
      options.plan.exact = plan::plan_from_json(plan::to_json({{}, engine.plan()}), "p").plan;
      return simulate(session, measured).prefill[0].seconds;
    };
    const double first = seconds();
    options.prompts.attention.reset();
    options.prompts.attention_share.reset();
    options.phone.heads = {};
    options.memory.layouts.reset();
    EXPECT_EQ(seconds(), first);
    options.plan.exact->heads.reset();
    options.plan.exact->changes_layouts = false;
    EXPECT_NE(seconds(), first);
  };
  prepare::Options options = timing_of("qwen2.5-0.5b", "shadowattn");
  options.phone.processors = {lanes::Processor::kCpu, lanes::Processor::kNpu};
  options.memory.context = 512;
  options.prompts.chunk = 128;
  prepare::Options heads = options;
  heads.prompts.attention = plan::AttentionForm::kQuery;
  heads.prompts.attention_share = 30;
  heads.phone.heads.stage = schedule::HeadStage::kFused;
  heads.phone.heads.n_buckets = 5;
  heads.phone.heads.block = 2;
  heads.phone.heads.has_equal_shares = true;
  repeats(heads);
  options.phone.stack = "sd.npu";
  options.memory.layouts = prepare::Layouts::kSwitch;
  repeats(options);
}

// Heads take time and compute nothing, and some lanes cannot run some parts.
TEST(Phone, S6HeadsThatAPlanCannotHaveAreRefused) {
  const test_support::TinyEngine tiny;
  prepare::Options options = timing_of(tiny.engine->file().path(), "shadowattn");
  options.phone.processors = {lanes::Processor::kCpu, lanes::Processor::kNpu};
  options.prompts.attention = plan::AttentionForm::kQuery;
  options.memory.context = 256;
  options.plan.exact = engine::Engine(options).plan();
  EXPECT_EQ(error_of(options), "");
  plan::Plan& plan = *options.plan.exact;
  plan.heads->select_lane = 1;
  EXPECT_NE(error_of(options).find("npu cannot be the lane of the selection"), std::string::npos);
  plan.heads->select_lane = 0;
  plan.placements.insert(plan.placements.begin(), {"attention", 0, 1});
  EXPECT_NE(error_of(options).find("npu cannot be the lane of exact"), std::string::npos);
  plan.placements.erase(plan.placements.begin());
  options.phone.has_values = true;
  options.prompts.attention.reset();
  EXPECT_NE(error_of(options).find("compute nothing"), std::string::npos) << error_of(options);
}

TEST(Phone, WhatIsWrongIsASentence) {
  prepare::Options options = timing_of("tiny-llama", "");
  EXPECT_NE(error_of(options).find("‹stack›"), std::string::npos) << error_of(options);
  options.phone.stack = "nothing";
  EXPECT_NE(error_of(options).find("llm.npu"), std::string::npos) << error_of(options);
  options = timing_of("tiny-llama", "llm.npu");
  options.phone.file = kPhoneFiles + "nothing.json";
  EXPECT_NE(error_of(options).find("nothing.json"), std::string::npos);
  options.phone.file = kPhoneFiles + "stacks/llm.npu.json";
  for (const char* const stack : {"llm.npu", ""}) {
    options.phone.stack = stack;
    EXPECT_NE(error_of(options).find("this is no phone's file"), std::string::npos) << stack;
  }
  // A model that is only a name has no values to compute with.
  options = on_phone("llm.npu");
  options.model.file = "tiny-llama";
  EXPECT_THROW(engine::Engine{options}, Error);
}

TEST(Phone, StrictNpuSaysThatScalesAreMissing) {
  const auto model = test_support::small_model();
  prepare::Options options = on_phone("llm.npu");
  options.lanes.is_strict_npu = true;
  try {
    test_support::TinyEngine engine(model, options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("scales"), std::string::npos) << error.what();
  }
  options.phone.processors = {lanes::Processor::kCpu, lanes::Processor::kGpu};
  EXPECT_NO_THROW(test_support::TinyEngine(model, options));
}

}  // namespace
}  // namespace troika::measure
