// Plans how neurons are read (P8), and runs with the plan from its file: answers are those of the
// same switches by hand.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "engine/session.h"
#include "model/architecture.h"
#include "plan/plan_json.h"
#include "prepare/plan/saved_plan.h"
#include "prepare/side_files.h"
#include "prepare/streaming/neurons/neuron_stream.h"
#include "solve/profile/op_shapes.h"
#include "solve/profile/profile_storage.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_engine.h"
#include "tune/default_text.h"
#include "tune/neurons/heat.h"
#include "tune/neurons/learn_predictor.h"
#include "tune/neurons/plan_here.h"
#include "weights/content_key.h"
#include "weights/neurons/predictor.h"

namespace troika::prepare {
namespace {

namespace fs = std::filesystem;

using PlannedRows = std::vector<std::vector<float>>;

// Returns a profile of one lane that reads 10 GB/s, and of a disk as fast as asked for.
plan::Profile made_up_profile(const std::string& file_name, double random_mb_s,
                              double in_order_mb_s) {
  const gguf::File file = gguf::File::open(file_name);
  const model::Blueprint blueprint = model::read(file);
  const weights::Store weights(file, blueprint);
  plan::Profile profile;
  profile.lanes = {{.name = "host", .cores = {}, .n_threads = 2}};
  for (const plan::OpShape& shape : solve::model_shapes(blueprint, weights, tensor::Type::kF16)) {
    profile.ops.push_back(
        {.lane = 0, .shape = shape, .us = 1.0 + 1e-4 * plan::op_bytes(shape), .n_runs = 3});
  }
  profile.starts = {{0, 1.0}};
  plan::Storage storage;
  for (const uint64_t block : {4096, 8192, 16384}) {
    storage.reads.push_back({block, 1 << 28, true, 16, 1.0, random_mb_s});
  }
  storage.reads.push_back({1 << 20, 1 << 28, false, 16, 1.0, in_order_mb_s});
  profile.storage = storage;
  return profile;
}

class NeuronPlans : public testing::Test {
 protected:
  NeuronPlans() {
    setenv("XDG_CACHE_HOME", folder_.file("cache").c_str(), 1);
    options_.model.file = folder_.file("tiny.gguf");
    write("llama");
    options_.memory.context = 256;
    options_.memory.held_bytes = 0;
    options_.lanes.n_threads = 2;
    options_.prompts.chunk = 32;
  }
  ~NeuronPlans() override { unsetenv("XDG_CACHE_HOME"); }

  void write(const char* architecture) {
    model_ = test_support::tiny_model(architecture);
    model_.activation = model_.n_experts > 0 ? "drelu" : "relu";
    model_.n_layers = 5;
    model_.ffn_width = 2048;
    if (model_.n_experts > 0) model_.expert_width = model_.ffn_width = 1024;
    model_.type = test_support::kQ4_0;
    write_tiny_model(model_, options_.model.file);
  }
  void count() {
    tune::HeatOptions how;
    how.engine = options_;
    how.engine.memory.limit_bytes = 0;
    how.text = tune::default_text();
    how.most_tokens = 200;
    const tune::HeatReport report = tune::measure_heat(how);
    EXPECT_EQ(report.heat.n_tokens(), 200u);
    const weights::NeuronHeat::Reuse& neurons = report.heat.neurons_reuse();
    EXPECT_TRUE(neurons.is_known());
    EXPECT_GT(neurons.within[0].n, report.n_written);
    for (size_t n = 2; n <= weights::NeuronHeat::Reuse::kMostTokens; ++n) {
      EXPECT_LT(neurons.within[n - 1].n, neurons.within[n - 2].n);
      EXPECT_LE(neurons.within[n - 1].n_again, neurons.within[n - 1].n);
    }
    EXPECT_GT(neurons.found_within(16), neurons.found_within(1));
    EXPECT_LE(report.heat.stay(), 1.0);
    knows_experts_ = report.heat.experts_reuse().is_known();
  }

  // Returns the largest limit, to 64 KB, with which no more than this share of the neurons has
  // places.
  size_t limit_of(double share) {
    Options options = options_;
    options.ffn.form = plan::FfnForm::kByNeuron;
    options.prompts.prefill = plan::Prefill::kSame;
    size_t low = 0, high = engine::Engine(options).ledger().total_bytes();
    const double most = share * model_.n_layers * model_.ffn_width * std::max(model_.n_experts, 1u);
    while (high - low > size_t{64} << 10) {
      options.memory.limit_bytes = low + (high - low) / 2;
      bool is_more = false;
      try {
        const engine::Engine engine(options);
        const WeightStream* const stream = engine.loaded().stream.get();
        is_more =
            stream == nullptr || static_cast<double>(stream->neurons()->cache().n_slots()) > most;
      } catch (const Error&) {
      }
      (is_more ? high : low) = options.memory.limit_bytes;
    }
    return low;
  }

  // Returns the names of the alternatives that nothing stands in the way of.
  static std::string possible(const plan::StreamedNeurons& made) {
    std::string names;
    for (const plan::NeuronAlternative& one : made.alternatives) {
      if (one.obstacle.empty()) names += one.name + "; ";
    }
    return names;
  }

  // Plans for the options, with a disk as fast as asked for.
  Options planned(double random_mb_s, double in_order_mb_s) const {
    const plan::Profile profile = made_up_profile(options_.model.file, random_mb_s, in_order_mb_s);
    return tune::plan_neurons_here({options_, &profile}, {});
  }

  std::string write_plan(const engine::Engine& engine) {
    const std::string path = folder_.file("plan.json");
    std::ofstream(path) << plan::to_json({plan_identity(engine.file()), engine.plan()});
    return path;
  }

  PlannedRows talk(engine::Engine& engine) const {
    engine::Session session(engine);
    return test_support::talk(session, test_support::random_tokens(model_, 60, 5), 50);
  }

  test::TempFolder folder_;
  test_support::TinyModel model_;
  Options options_;
  bool knows_experts_ = false;  // says that experts were counted
};

TEST_F(NeuronPlans, P4PinsThatAreGivenStandInThePlan) {
  count();
  options_.memory.limit_bytes = limit_of(0.5);
  options_.ffn.form = plan::FfnForm::kByNeuron;
  options_.ffn.pinned_percent = {60, 30, 0};
  const plan::StreamedNeurons few = planned(50.0, 2000.0).ffn.planned.value();
  EXPECT_EQ(plan::pins_by_tokens(few), (std::vector<int>{60, 30, 0, 0}));
  // More pins make steps of several sequences another time, at a law that is theirs.
  EXPECT_NE(few.batches[1].forecast.ms, few.batches[2].forecast.ms);
  options_.ffn.pinned_percent = {60, 50, 40, 30, 20, 10};
  const plan::StreamedNeurons many = planned(50.0, 2000.0).ffn.planned.value();
  EXPECT_EQ(plan::pins_by_tokens(many), options_.ffn.pinned_percent);
  options_.ffn.pinned_percent.assign(65, 1);
  EXPECT_THROW(engine::Engine{options_}, UsageError);
}

TEST_F(NeuronPlans, P8AFileRunsAsTheSameSwitchesByHandDo) {
  count();
  options_.memory.limit_bytes = limit_of(0.5);
  options_.ffn.form = plan::FfnForm::kByNeuron;
  const Options chosen = planned(50.0, 2000.0);
  const plan::StreamedNeurons made = chosen.ffn.planned.value();
  EXPECT_EQ(made.budget_bytes, options_.memory.limit_bytes);
  EXPECT_GT(made.forecast.n_reads, 0.0);
  EXPECT_EQ(made.batches.size(), 4u);
  EXPECT_LT(made.batches[0].live_share, made.batches[3].live_share);
  EXPECT_GT(made.planning_ms, 0.0);
  std::string path;
  {
    engine::Engine engine(chosen);
    EXPECT_EQ(engine.plan().streamed_neurons, made);
    path = write_plan(engine);
    // Places were predicted before anything was taken.
    const double n_slots =
        static_cast<double>(engine.loaded().stream->neurons()->cache().n_slots());
    EXPECT_NEAR(static_cast<double>(made.n_places), n_slots, 0.02 * n_slots);
  }
  Options by_hand = options_;
  by_hand.ffn.pinned_percent = plan::pins_by_tokens(made);
  by_hand.ffn.pipeline = made.pipeline;
  engine::Engine hand(by_hand);
  const PlannedRows expected = talk(hand);

  Options by_plan;
  by_plan.model.file = options_.model.file;
  by_plan.memory.held_bytes = 0;
  by_plan.plan.file = path;
  for (const size_t limit : {size_t{0}, options_.memory.limit_bytes,
                             options_.memory.limit_bytes + (size_t{512} << 10)}) {
    by_plan.memory.limit_bytes = limit;
    engine::Engine engine(by_plan);
    ASSERT_NE(engine.loaded().stream, nullptr) << limit;
    EXPECT_EQ(engine.plan().streamed_neurons, made);
    EXPECT_EQ(talk(engine), expected) << limit;
    const bool is_scaled = limit > options_.memory.limit_bytes;
    const std::string expected_note = is_scaled ? "places are scaled" : "as planned for";
    EXPECT_NE(engine.loaded().note.find(expected_note), std::string::npos) << engine.loaded().note;
    const auto& cache = engine.loaded().stream->neurons()->cache();
    const auto& own = hand.loaded().stream->neurons()->cache();
    EXPECT_EQ(cache.n_slots() == own.n_slots(), !is_scaled);
    EXPECT_EQ(cache.n_pins() == own.n_pins(), !is_scaled || own.n_pins() == 0);
  }
  // Another form than the planned one leaves the whole plan of neurons aside.
  by_plan.memory.limit_bytes = 0;
  by_plan.ffn.form = plan::FfnForm::kByOutput;
  const engine::Engine other(by_plan);
  EXPECT_FALSE(other.plan().streamed_neurons);
  EXPECT_EQ(other.loaded().stream, nullptr);
}

// Gates in memory are faster, and not taken where somebody wants gates read before the rest.
TEST_F(NeuronPlans, P7WhoAsksForTwoReadsGetsThem) {
  model_.width = 1024;  // a neuron takes two pages, of which the first has its gate
  model_.n_layers = 2;
  model_.ffn_width = 1024;
  model_.type = test_support::kF16;
  write_tiny_model(model_, options_.model.file);
  count();
  {
    const gguf::File file = gguf::File::open(options_.model.file);
    weights::NeuronPredictor predictor({model_.n_layers, model_.ffn_width, model_.width, 32}, 1.0);
    predictor.write(neuron_file_path("predictor", file), weights::content_key(file));
  }
  options_.ffn.form = plan::FfnForm::kByNeuron;
  options_.ffn.has_predictor = true;
  options_.memory.limit_bytes = limit_of(0.5);
  for (const auto reads : {BundleReads::kOnce, BundleReads::kTwice}) {
    options_.ffn.reads = reads;
    const Options chosen = planned(50.0, 2000.0);
    EXPECT_EQ(chosen.ffn.planned->reads, reads);
    if (reads == BundleReads::kOnce) continue;
    EXPECT_EQ(chosen.ffn.gates, plan::FfnGates::kInBundles);
  }
  options_.ffn.gates = plan::FfnGates::kInMemory;
  const std::string message = test::message_of<Error>([&] { (void)planned(50.0, 2000.0); });
  EXPECT_NE(message.find("‹neuron-reads› twice was asked for"), std::string::npos) << message;
  EXPECT_EQ(message.find(".."), std::string::npos) << message;
}

// Prompts of such a plan do not go by neuron, and a text is counted all the same.
TEST_F(NeuronPlans, P5NeuronsAreCountedByAPlanFromAFile) {
  options_.ffn.form = plan::FfnForm::kByNeuron;
  options_.prompts.prefill = plan::Prefill::kQ8;
  tune::HeatOptions how;
  {
    const engine::Engine engine(options_);
    ASSERT_EQ(engine.plan().prefill, plan::Prefill::kQ8);
    how.engine.plan.file = write_plan(engine);
  }
  how.engine.model.file = options_.model.file;
  how.text = tune::default_text();
  how.most_tokens = 200;
  const tune::HeatReport by_plan = tune::measure_heat(how);
  how.engine.plan.file.clear();
  const tune::HeatReport by_itself = tune::measure_heat(how);
  EXPECT_EQ(by_plan.heat.n_tokens(), 200u);
  EXPECT_EQ(by_plan.heat.live_share(), by_itself.heat.live_share());
  EXPECT_EQ(by_plan.heat.neurons_reuse().within[0].n, by_itself.heat.neurons_reuse().within[0].n);
  EXPECT_GT(by_plan.heat.live_share(), 0.2);
}

TEST_F(NeuronPlans, P8TheDiskDecidesBetweenBlocksAndNeurons) {
  count();
  options_.memory.limit_bytes = limit_of(0.25);
  // Random reads that take for ever leave whole blocks, and so do reads in order the neurons.
  const plan::StreamedNeurons blocks = planned(0.001, 5000.0).ffn.planned.value();
  EXPECT_EQ(blocks.form, plan::FfnForm::kByOutput);
  EXPECT_NE(blocks.reason.find("by-output: blocks take turns"), std::string::npos) << blocks.reason;
  EXPECT_GT(blocks.forecast.read_bytes, 0.0);
  const Options by_neuron = planned(5000.0, 0.001);
  EXPECT_EQ(by_neuron.ffn.planned->form, plan::FfnForm::kByNeuron);
  // A given profile leaves single neurons untimed, and the plan says so.
  EXPECT_NE(by_neuron.ffn.planned->reason.find("a profile was given"), std::string::npos)
      << by_neuron.ffn.planned->reason;
  // The plan of blocks runs, too.
  const plan::Profile profile = made_up_profile(options_.model.file, 0.001, 5000.0);
  engine::Engine engine(tune::plan_neurons_here({options_, &profile}, {}));
  EXPECT_NE(engine.loaded().stream, nullptr);
  EXPECT_EQ(engine.plan().ffn.form, plan::FfnForm::kByOutput);
  const plan::Plan again =
      plan::plan_from_json(plan::to_json({plan_identity(engine.file()), engine.plan()}), "p").plan;
  EXPECT_EQ(again.streamed_neurons, engine.plan().streamed_neurons);
}

// A mixture has experts by route, and neurons of experts.
TEST_F(NeuronPlans, P8MixturesArePlannedToo) {
  write("mixtral");
  count();
  EXPECT_TRUE(knows_experts_);
  options_.memory.limit_bytes = limit_of(0.5);
  const plan::StreamedNeurons whole = planned(0.001, 5000.0).ffn.planned.value();
  EXPECT_EQ(whole.form, plan::FfnForm::kByOutput);
  EXPECT_NE(whole.reason.find("experts are read by route"), std::string::npos) << whole.reason;
  EXPECT_GT(whole.forecast.read_bytes, 0.0);
  EXPECT_LT(whole.forecast.hit_share, 1.0);
  const Options by_neuron = planned(5000.0, 50.0);
  const plan::StreamedNeurons made = by_neuron.ffn.planned.value();
  EXPECT_EQ(made.form, plan::FfnForm::kByNeuron) << possible(made);
  EXPECT_NE(possible(made).find("by-output, experts by route"), std::string::npos)
      << possible(made);
  std::string path;
  {
    engine::Engine engine(by_neuron);
    const auto n_slots = static_cast<double>(engine.loaded().stream->neurons()->cache().n_slots());
    EXPECT_NEAR(static_cast<double>(made.n_places), n_slots, 0.02 * n_slots);
    const bool is_by_route = possible(made).find("gates by route") != std::string::npos;
    EXPECT_EQ(engine.loaded().experts != nullptr, is_by_route);
    path = write_plan(engine);
  }
  Options by_hand = options_;
  by_hand.ffn.form = plan::FfnForm::kByNeuron;
  engine::Engine hand(by_hand);
  Options by_plan;
  by_plan.model.file = options_.model.file;
  by_plan.memory.held_bytes = 0;
  by_plan.plan.file = path;
  engine::Engine engine(by_plan);
  EXPECT_EQ(engine.plan().streamed_neurons, made);
  EXPECT_EQ(talk(engine), talk(hand));
}

TEST_F(NeuronPlans, P8NoBlocksAreStreamedWhereMemoryHoldsAll) {
  options_.ffn.form = plan::FfnForm::kByOutput;
  options_.memory.limit_bytes = size_t{16} << 30;
  const plan::StreamedNeurons all = planned(50.0, 2000.0).ffn.planned.value();
  EXPECT_EQ(all.reason.find("blocks take turns"), std::string::npos) << all.reason;
  EXPECT_NE(all.reason.find("by-output: all is in memory"), std::string::npos) << all.reason;
  // Where none is computed by itself, no time of single neurons is missing.
  EXPECT_EQ(all.reason.find("timed by itself"), std::string::npos) << all.reason;
}

// What is asked for plans at once, where a profile is measured first.
class MeasuredNeuronPlans : public NeuronPlans {
 protected:
  MeasuredNeuronPlans() {
    options_.ffn.form = plan::FfnForm::kByOutput;
    options_.memory.limit_bytes = size_t{16} << 30;
    request_.options = options_;
    request_.budget_s = 0.02;
  }
  Options plan() const {
    return tune::plan_neurons_here(request_,
                                   [](const std::string&) { return [](uint64_t, uint64_t) {}; });
  }
  size_t n_kept() const {
    size_t n = 0;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_.file("cache/troika"), ignored)) {
      n += entry.path().filename().string().starts_with("profile-");
    }
    return n;
  }
  // Makes the model's file so large that its own reads are measured.
  void grow_model() const { fs::resize_file(options_.model.file, solve::kLeastProfiledFile); }

  tune::NeuronPlanRequest request_;
};

TEST_F(MeasuredNeuronPlans, P8ProfilesAreKeptUnlessThatIsForbidden) {
  grow_model();
  request_.options.memory.has_side_files = false;
  EXPECT_EQ(plan().ffn.planned->form, plan::FfnForm::kByOutput);
  EXPECT_EQ(n_kept(), 0u);
  request_.options.memory.has_side_files = true;
  request_.keeps_profile = false;
  (void)plan();
  EXPECT_EQ(n_kept(), 0u);
  request_.keeps_profile = true;
  (void)plan();
  EXPECT_EQ(n_kept(), 1u);
}

// The limit stands for a full disk, which takes no file to measure with.
TEST_F(MeasuredNeuronPlans, P8AFullDiskMattersOnlyWhereItMustBeMeasured) {
  const test::FileSizeLimit limit(rlim_t{8} << 20);
  const std::string message = test::message_of<Error>([&] { (void)plan(); });
  EXPECT_NE(message.find("‹profile›"), std::string::npos) << message;
  EXPECT_EQ(message.find("no-storage"), std::string::npos) << message;
  EXPECT_EQ(n_kept(), 1u);  // the ops, which took most of the time
  {
    const test::FileSizeLimit none(RLIM_INFINITY);
    grow_model();
  }
  EXPECT_EQ(plan().ffn.planned->form, plan::FfnForm::kByOutput);
}

TEST_F(NeuronPlans, P8ADamagedCountIsToldWithItsFile) {
  count();
  options_.memory.limit_bytes = limit_of(0.25);
  const std::string path = neuron_file_path("heat", gguf::File::open(options_.model.file));
  fs::resize_file(path, 100);
  const plan::StreamedNeurons made = planned(50.0, 2000.0).ffn.planned.value();
  bool is_said = false;
  for (const plan::NeuronAlternative& one : made.alternatives) {
    EXPECT_EQ(one.obstacle.find("nobody has counted"), std::string::npos) << one.obstacle;
    is_said = is_said || one.obstacle.find(path) != std::string::npos;
  }
  EXPECT_TRUE(is_said);
}

// Reading the text takes minutes, and what it finds has no other place.
TEST_F(NeuronPlans, P8AFileThatCannotBeWrittenIsToldBeforeTheTextIsRead) {
  tune::HeatOptions how;
  how.engine = options_;
  how.text = tune::default_text();
  how.most_tokens = 200;
  bool has_read = false;
  how.progress = [&](uint64_t, uint64_t) { has_read = true; };
  tune::PredictorOptions predictor;
  predictor.engine = options_;
  predictor.text = how.text;
  predictor.most_tokens = 200;
  predictor.progress = how.progress;
  setenv("XDG_CACHE_HOME", "/dev/null", 1);
  for (const bool learns : {false, true}) {
    const std::string message = test::message_of<Error>(
        [&] { learns ? void(tune::learn_predictor(predictor)) : void(tune::measure_heat(how)); });
    EXPECT_NE(message.find("/dev/null/troika"), std::string::npos) << message;
    EXPECT_FALSE(has_read);
  }
}

TEST_F(NeuronPlans, P8WhatCannotBePlannedIsSaidInWords) {
  EXPECT_THROW(planned(50.0, 2000.0), UsageError);  // there is no limit
  options_.memory.limit_bytes = limit_of(0.25);
  // Nobody has counted which neurons are hot, so only whole blocks can be planned.
  const plan::StreamedNeurons made = planned(50.0, 2000.0).ffn.planned.value();
  EXPECT_EQ(made.form, plan::FfnForm::kByOutput);
  bool is_said = false;
  for (const plan::NeuronAlternative& one : made.alternatives) {
    is_said = is_said || one.obstacle.find("troika neurons") != std::string::npos;
  }
  EXPECT_TRUE(is_said);
  options_.ffn.form = plan::FfnForm::kByNeuron;
  EXPECT_THROW(planned(50.0, 2000.0), Error);
  options_.ffn.form = plan::FfnForm::kEveryNeuron;
  EXPECT_THROW(planned(50.0, 2000.0), UsageError);
}

}  // namespace
}  // namespace troika::prepare
