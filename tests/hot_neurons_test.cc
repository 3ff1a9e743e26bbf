// Hot neurons are computed densely, as tasks of their own, beside the others, which go by neuron
// (P1, P3): logits are near those of the reference, and neither the lane, nor threads, widths and
// memory change a bit.
#include "weights/neurons/hot_neurons.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/random.h"
#include "base/system.h"
#include "base/trace.h"
#include "lanes/opencl/test_support.h"
#include "model/architecture.h"
#include "model/gated_ffns.h"
#include "plan/plan_json.h"
#include "prepare/plan/saved_plan.h"
#include "prepare/side_files.h"
#include "prepare/streaming/neurons/neuron_stream.h"
#include "tests/support/limited_engine.h"
#include "tests/support/logits.h"
#include "tests/support/repository.h"
#include "weights/content_key.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using plan::FfnForm;
using prepare::Options;
using test_support::engine_logits;
using test_support::TinyModel;
using AllLogits = std::vector<reference::Vector>;

constexpr size_t kTextTokens = 40;

// Returns a model with three segments of neurons, the last of which is not whole.
TinyModel hot_model(const std::string& architecture, uint32_t type) {
  TinyModel model = test_support::tiny_model(architecture);
  model.ffn_width = 1280;
  model.n_layers = 3;
  model.type = type;
  if (architecture == "llama") model.activation = "relu";
  return model;
}

plan::PlannedLane hot_device() {
  plan::PlannedLane lane = {{}, 0, "opencl"};
  lane.device = "0";
  return lane;
}

class HotNeuronTasks : public testing::Test {
 protected:
  HotNeuronTasks() { setenv("XDG_CACHE_HOME", folder_.file("cache").c_str(), 1); }
  ~HotNeuronTasks() override { unsetenv("XDG_CACHE_HOME"); }

  // Writes the model, and counts for its neurons that are as good as any.
  void write(const TinyModel& model, uint64_t seed = 5) {
    model_ = model;
    path_ = folder_.file("tiny.gguf");
    write_tiny_model(model_, path_);
    tokens_ = test_support::random_tokens(model_, kTextTokens);
    const gguf::File file = gguf::File::open(path_);
    const model::Blueprint blueprint = model::read(file);
    const std::vector<model::GatedFfn> ffns = model::gated_ffns(blueprint);
    const auto up = static_cast<size_t>(ffns.front().up);
    weights::NeuronHeat heat(ffns.size(), static_cast<uint64_t>(blueprint.weights[up].n_rows));
    for (uint64_t layer = 0; layer < ffns.size(); ++layer) {
      uint64_t n = layer << 32;
      for (uint32_t& count : heat.counts(layer)) {
        count = static_cast<uint32_t>(random_bits(seed, n++) % 1000);
      }
    }
    heat.set_tokens(1000);
    write_heat(prepare::neuron_file_path("heat", file), weights::content_key(file), heat);
  }

  // Returns options with which all tokens are computed by neuron.
  Options options(int hot_percent) const {
    Options options;
    options.model.file = path_;
    options.lanes.n_threads = 1;
    options.memory.context = 128;
    options.memory.held_bytes = 0;
    options.prompts.prefill = plan::Prefill::kSame;
    options.ffn.form = FfnForm::kByNeuron;
    options.ffn.hot_percent = hot_percent;
    return options;
  }
  Options float_options(int hot_percent) const {
    Options options = this->options(hot_percent);
    options.activations = plan::Activations::kF32;
    options.memory.kv_type = tensor::Type::kF32;
    return options;
  }
  // Lets a lane of its own compute hot neurons.
  static Options on_two_lanes(Options options) {
    options.lanes.n_threads = 0;
    options.lanes.cores = {{{}, 2}, {{}, 1}};
    return options;
  }
  AllLogits logits(const Options& options, const std::vector<size_t>& pieces = {}) const {
    return engine_logits(options, tokens_, pieces);
  }

  test::TempFolder folder_;
  TinyModel model_;
  std::string path_;
  std::vector<int32_t> tokens_;
};

TEST_F(HotNeuronTasks, P1AgreesWithTheReferenceInFloat) {
  for (const char* const architecture : {"llama", "bamboo"}) {
    write(hot_model(architecture, test_support::kF32));
    const auto judge = test_support::reference_logits(model_, tokens_);
    for (const int percent : {1, 30, 90}) {
      EXPECT_LE(reference::relative_error(logits(float_options(percent)), judge), 1e-5)
          << architecture << " " << percent;
    }
  }
}

// What stands behind a block differs between architectures: norms, sums, both.
TEST_F(HotNeuronTasks, P1EveryBlockWithAGateCanHaveThem) {
  for (const char* const architecture : {"gemma2", "qwen2", "phi3", "qwen2moe", "bamboo"}) {
    write(hot_model(architecture, test_support::kF32));
    Options every = float_options(30);
    every.ffn.form = FfnForm::kEveryNeuron;
    const auto judge = test_support::reference_logits(model_, tokens_);
    EXPECT_LE(reference::relative_error(logits(every), judge), 1e-5) << architecture;
  }
}

TEST_F(HotNeuronTasks, P1DeadNeuronsChangeNoBit) {
  write(hot_model("llama", test_support::kQ4_0));
  Options every = options(30);
  every.ffn.form = FfnForm::kEveryNeuron;
  const AllLogits hot = logits(options(30));
  EXPECT_EQ(logits(every), hot);
  // If the classes had the same bits, the test would show nothing.
  EXPECT_NE(logits(options(0)), hot);
  // What is rounded to 8 bits of the last matrix is little.
  EXPECT_LE(reference::relative_error(hot, logits(options(0))), 0.05);
}

TEST_F(HotNeuronTasks, P1P3LanesThreadsAndWidthsChangeNoBit) {
  for (const uint32_t type : {test_support::kQ4_0, test_support::kQ4_K, test_support::kF16}) {
    write(hot_model("llama", type));
    const AllLogits wanted = logits(options(30));
    Options three = options(30);
    three.lanes.n_threads = 3;
    EXPECT_EQ(logits(three, {1, 2, 9}), wanted) << type;
    const Options two = on_two_lanes(options(30));
    EXPECT_EQ(logits(two), wanted) << type;
    EXPECT_EQ(logits(two, {1, 1, 8, 17}), wanted) << type;
    Options crossed = on_two_lanes(options(30));  // the other way round
    crossed.ffn.hot_lane = 0;
    crossed.lanes.placements = {{"ffn", 0, 1}};
    EXPECT_EQ(logits(crossed), wanted) << type;
    Options heads = on_two_lanes(options(30));  // attention on both lanes, too
    heads.lanes.cuts = {plan::cut_from_text("attention=heads:0:1,1:1")};
    EXPECT_EQ(logits(heads), wanted) << type;
  }
}

// Tasks of both kinds run on their own lanes.
TEST_F(HotNeuronTasks, P3HotAndOthersAreTasksOfTwoLanes) {
  write(hot_model("llama", test_support::kQ4_0));
  Engine engine(on_two_lanes(options(30)));
  Session session(engine);
  Trace trace({"0", "1"});
  engine::Watch watch;
  watch.trace = &trace;
  session.watch(watch);
  session.evaluate(std::span(tokens_).first(1), [](int, std::span<const float>) {});
  int n_hot = 0, n_others = 0;
  for (const TraceEvent& event : trace.events()) {
    const std::string name = event.name;
    n_hot += name == "hot" && event.lane == 1 ? 1 : 0;
    n_others += name == "ffn" && event.lane == 0 ? 1 : 0;
    EXPECT_TRUE(name == "hot" || event.lane == 0) << name;
  }
  EXPECT_EQ(n_hot, static_cast<int>(model_.n_layers));
  EXPECT_EQ(n_others, n_hot);
}

// The two wait for the same task and not for each other, so that they may run side by side. What
// adds their sums waits for both.
TEST_F(HotNeuronTasks, P3HotAndOthersWaitForTheSameAndNotForEachOther) {
  for (const char* const architecture : {"llama", "bamboo"}) {
    write(hot_model(architecture, test_support::kQ4_0));
    const Engine engine(on_two_lanes(options(30)));
    const schedule::TaskList& list = engine.graphs().body(plan::Phase::kStep, 1);
    const auto name = [&](int task) {
      return std::string(list.tasks[static_cast<size_t>(task)].name);
    };
    int n_hot = 0;
    for (int i = 0; i < static_cast<int>(list.tasks.size()); ++i) {
      if (name(i) != "hot") continue;
      ++n_hot;
      const schedule::Task& hot = list.tasks[static_cast<size_t>(i)];
      const schedule::Task& others = list.tasks[static_cast<size_t>(i) + 1];
      EXPECT_EQ(name(i + 1), "ffn");
      EXPECT_NE(hot.lane, others.lane);
      EXPECT_EQ(hot.waits_for, others.waits_for);
      ASSERT_EQ(hot.waits_for.size(), 1u);
      EXPECT_EQ(hot.waits_for[0], i - 1);
      EXPECT_EQ(name(i + 2), "merge");
      EXPECT_EQ(list.tasks[static_cast<size_t>(i) + 2].waits_for, (std::vector<int>{i, i + 1}));
    }
    EXPECT_EQ(n_hot, static_cast<int>(model_.n_layers)) << architecture;
  }
}

// Prompts that are not computed as steps are need all neurons, and read whole matrices.
TEST_F(HotNeuronTasks, P2PromptsStayAsTheyWere) {
  write(hot_model("llama", test_support::kQ8_0));
  Options by_output = options(0), hot = options(30);
  by_output.ffn = {};
  for (Options* one : {&by_output, &hot}) one->prompts.prefill = plan::Prefill::kBf16;
  EXPECT_EQ(logits(hot), logits(by_output));
}

TEST_F(HotNeuronTasks, P1P10MemoryChangesNoBit) {
  TinyModel model = hot_model("llama", test_support::kQ4_0);
  model.ffn_width = 2048;
  model.n_layers = 5;
  write(model);
  Options three = options(20);
  three.lanes.n_threads = 3;
  Options heads = on_two_lanes(options(20));
  heads.lanes.cuts = {plan::cut_from_text("attention=heads:0:1,1:1")};
  for (const Options& whole : {options(20), three, on_two_lanes(options(20)), heads}) {
    Engine engine(whole);
    Session session(engine);
    const AllLogits wanted = engine_logits(session, tokens_);
    const size_t all_bytes = engine.ledger().total_bytes();
    EXPECT_GT(engine.ledger().bytes(plan::Owner::kNeurons), engine.weights().hot()->bytes());
    Options limited = whole;
    std::unique_ptr<Engine> streamed;
    for (size_t part = 15; part > 4 && streamed == nullptr; --part) {
      limited.memory.limit_bytes = all_bytes * part / 16;
      auto smaller = std::make_unique<Engine>(limited);
      const prepare::WeightStream* const stream = smaller->loaded().stream.get();
      if (stream != nullptr && stream->neurons() != nullptr &&
          2 * stream->neurons()->cache().n_slots() < 5 * 2048) {
        streamed = std::move(smaller);
      }
    }
    ASSERT_NE(streamed, nullptr);
    Session limited_session(*streamed);
    EXPECT_EQ(engine_logits(limited_session, tokens_), wanted);
    const prepare::NeuronStream& neurons = *streamed->loaded().stream->neurons();
    EXPECT_GT(neurons.counters().cache.misses, 0);
    const std::string text = neurons.text();
    const std::string shown = fmt::format("of {} neurons beside {} hot ones",
                                          5 * 2048 - streamed->weights().hot()->n_neurons(),
                                          streamed->weights().hot()->n_neurons());
    EXPECT_NE(text.find(shown), std::string::npos) << text;
    // Hot neurons are among the hottest of all, and none of them takes a place.
    const weights::HotNeurons& hot = *streamed->weights().hot();
    for (int layer = 0; layer < 5; ++layer) {
      for (int place = 0; place < 2048; ++place) {
        const uint32_t neuron =
            neurons.file().tables().order(static_cast<uint64_t>(layer))[static_cast<size_t>(place)];
        const bool takes_a_place = neurons.cache().is_resident({layer, place});
        EXPECT_FALSE(takes_a_place && hot.is_hot(static_cast<size_t>(layer), neuron)) << neuron;
      }
    }
  }
}

// Who reads the file through a map gives its pages back as soon as a block is done, or else all of
// the model would be in memory at the start.
TEST_F(HotNeuronTasks, P10WhatIsReadOfTheFileIsToldBlockByBlock) {
  write(hot_model("llama", test_support::kQ4_0));
  const gguf::File file = gguf::File::open(path_);
  const model::Blueprint blueprint = model::read(file);
  const weights::Store weights(file, blueprint);
  const std::vector<model::GatedFfn> ffns = model::gated_ffns(blueprint);
  std::vector<const std::byte*> expected, told;
  for (const model::GatedFfn& ffn : ffns) {
    for (const model::WeightId id : {ffn.gate, ffn.up, ffn.down}) {
      expected.push_back(weights.matrix(id).data);
    }
  }
  const std::vector<std::vector<uint32_t>> lists(ffns.size(), [] {
    std::vector<uint32_t> list(32);
    std::iota(list.begin(), list.end(), 5);
    return list;
  }());
  const weights::HotNeurons hot(
      blueprint, ffns, lists, weights, 1,
      [&](const weights::Matrix& matrix) { told.push_back(matrix.data); });
  EXPECT_EQ(told, expected);
}

// Such a plan can come from a file that was made for another model, or by hand.
TEST_F(HotNeuronTasks, P1APlanWithHotNeuronsOfExpertsIsRefused) {
  path_ = folder_.file("experts.gguf");
  const TinyModel experts = test_support::tiny_model("qwen3moe");
  write_tiny_model(experts, path_);
  Options made = options(0);
  made.ffn = {};
  plan::Plan plan = Engine(made).plan();
  plan.ffn.form = FfnForm::kByNeuron;
  plan.ffn.hot = {50, 0, 7};
  plan.ffn.thresholds.assign(experts.n_layers, 0.1f);
  made.plan.exact = plan;
  try {
    const Engine engine(made);
    FAIL() << "is not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("those of experts"), std::string::npos)
        << error.what();
  }
}

TEST_F(HotNeuronTasks, P3APredictorChoosesAmongTheOthers) {
  write(hot_model("llama", test_support::kQ4_0));
  weights::NeuronPredictor predictor({model_.n_layers, model_.ffn_width, model_.width, 32}, 1.0);
  for (uint64_t layer = 0; layer < model_.n_layers; ++layer) {
    std::fill_n(predictor.layer(layer).thresholds, model_.ffn_width,
                -std::numeric_limits<float>::infinity());
  }
  const gguf::File file = gguf::File::open(path_);
  predictor.write(prepare::neuron_file_path("predictor", file), weights::content_key(file));
  Options predicting = options(30);
  predicting.ffn.has_predictor = true;
  EXPECT_EQ(logits(predicting), logits(options(30)));
}

TEST_F(HotNeuronTasks, P1AFileOfAPlanNamesThem) {
  write(hot_model("llama", test_support::kQ4_0));
  const Options chosen = on_two_lanes(options(30));
  const Engine engine(chosen);
  EXPECT_EQ(engine.plan().ffn.hot.lane, 1);
  Options by_file;
  by_file.model.file = path_;
  by_file.plan.file = folder_.file("plan.json");
  write_file(by_file.plan.file,
             plan::to_json({prepare::plan_identity(engine.file()), engine.plan(), std::nullopt}));
  EXPECT_EQ(Engine(by_file).plan().ffn, engine.plan().ffn);
  EXPECT_EQ(logits(by_file), logits(chosen));
  by_file.ffn.hot_percent = 60;
  EXPECT_EQ(Engine(by_file).plan().ffn.hot.percent, 60);
  by_file.ffn.hot_percent = 0;
  EXPECT_EQ(Engine(by_file).weights().hot(), nullptr);
  by_file.ffn.hot_percent.reset();
  write(model_, 6);  // others are hot
  EXPECT_NE(test::message_of<Error>([&] { Engine again(by_file); }).find("Other neurons are hot"),
            std::string::npos);
}

// The steps before the last one have none, whether an option or a plan names them: bits stay.
TEST_F(HotNeuronTasks, P13OnlyTheLastStepOfTheAblationHasThem) {
  write(hot_model("llama", test_support::kQ4_0));
  const AllLogits without = logits(options(0));
  Options by_plan;
  by_plan.model.file = path_;
  by_plan.plan.file = folder_.file("plan.json");
  {
    const Engine engine(options(30));
    write_file(by_plan.plan.file,
               plan::to_json({prepare::plan_identity(engine.file()), engine.plan(), std::nullopt}));
  }
  for (const plan::NeuronSystem step : {plan::NeuronSystem::kBundle, plan::NeuronSystem::kCache,
                                        plan::NeuronSystem::kPipeline, plan::NeuronSystem::kXpu}) {
    const bool is_last = step == plan::NeuronSystem::kXpu;
    Options given = options(30);
    given.phone.neurons.system = step;
    const std::string refusal = test::message_of<Error>([&] { take_neuron_stage(&given); });
    EXPECT_EQ(refusal.find("has no hot neurons") == std::string::npos, is_last) << refusal;
    Options planned = by_plan;
    planned.phone.neurons.system = step;
    take_neuron_stage(&planned);
    EXPECT_EQ(Engine(planned).weights().hot() != nullptr, is_last);
    EXPECT_EQ(logits(planned) == without, !is_last);
  }
}

TEST_F(HotNeuronTasks, P1WhatCannotBeIsRefusedInWords) {
  write(hot_model("llama", test_support::kQ8_0));
  const auto problem = [&](const std::function<void(Options&)>& change) {
    Options changed = on_two_lanes(options(30));
    change(changed);
    return test::message_of<Error>([&] { Engine engine(changed); });
  };
  EXPECT_EQ(problem([](Options&) {}), "");
  EXPECT_NE(problem([](Options& o) { o.ffn.form.reset(); }).find("Use ‹ffn› by-neuron"),
            std::string::npos);
  EXPECT_NE(problem([](Options& o) { o.ffn.hot_percent = 95; }).find("a percentage"),
            std::string::npos);
  EXPECT_NE(problem([](Options& o) { o.ffn.hot_lane = 2; }).find("the lanes are 0 to 1"),
            std::string::npos);
  EXPECT_NE(problem([](Options& o) {
              o.ffn.hot_percent = 0, o.ffn.hot_lane = 1;
            }).find("‹neuron-hot-lane› says which lane"),
            std::string::npos);
  EXPECT_NE(problem([](Options& o) {
              o.lanes.cuts = {plan::cut_from_text("ffn.ffn_down=rows:0:1,1:1")};
            }).find("Leave out what divides it"),
            std::string::npos);
  // Nobody is sent to count neurons where a model has none that rest.
  TinyModel silu = hot_model("llama", test_support::kQ8_0);
  silu.activation.clear();
  write(silu);
  std::filesystem::remove_all(folder_.file("cache"));
  EXPECT_NE(problem([](Options& o) { o.lanes.cores = {hot_device()}; }).find("not ReLU"),
            std::string::npos);
  write(hot_model("llama", test_support::kQ8_0));
  EXPECT_NE(problem([](Options& o) {
              o.lanes.cores = {hot_device()}, o.ffn.hot_percent.reset();
            }).find("‹lanes› has none"),
            std::string::npos);
  EXPECT_NE(problem([](Options& o) {
              o.lanes.cores.push_back(hot_device()), o.ffn.hot_percent.reset();
            }).find("(‹neuron-hot›)"),
            std::string::npos);
  std::filesystem::remove_all(folder_.file("cache"));
  EXPECT_NE(problem([](Options&) {}).find("Run 'troika neurons' with this model first"),
            std::string::npos);
}

// A device computes what is hot, in floats, and cores compute the others.
TEST_F(HotNeuronTasks, P1AnOpenclDeviceComputesThemInFloat) {
  const lanes::opencl::FoundDevice found = lanes::opencl::find_device();
  if (found.device == nullptr) GTEST_SKIP() << found.problem;
  for (const uint32_t type : {test_support::kF32, test_support::kQ4_0}) {
    write(hot_model("llama", type));
    Options device = float_options(30);
    device.lanes.n_threads = 0;
    device.lanes.cores = {{{}, 1}, hot_device()};
    const AllLogits judge = logits(float_options(30));
    EXPECT_LE(reference::relative_error(logits(device, {1, 1, 8}), judge), 2e-5) << type;
  }
}

}  // namespace
}  // namespace troika
