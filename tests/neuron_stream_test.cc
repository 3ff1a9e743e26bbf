// Feed-forward blocks run by neuron where memory has no room for all neurons (P5, P6, P7, P10).
// Results are those of weights in memory, with any budget and pipeline.
#include "prepare/streaming/neurons/neuron_stream.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "base/trace.h"
#include "forge/synth.h"
#include "tests/support/limited_engine.h"
#include "tests/support/repository.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_engine.h"
#include "tune/default_text.h"
#include "tune/neurons/heat.h"

namespace troika::prepare {
namespace {

using test_support::copy_of;
using test_support::random_tokens;
using test_support::TinyEngine;
using test_support::TinyModel;
using Logits = std::vector<float>;

TinyModel relu_model(const char* architecture, uint32_t type) {
  TinyModel model = test_support::tiny_model(architecture);
  if (model.architecture == "llama") model.activation = "relu";
  model.n_layers = 5;
  model.ffn_width = 2048;
  if (model.n_experts > 0) model.expert_width = model.ffn_width = 1024;
  model.type = type;
  return model;
}

Options by_neuron() {
  Options options;
  options.ffn.form = plan::FfnForm::kByNeuron;
  options.prompts.prefill = plan::Prefill::kSame;
  options.prompts.chunk = 32;
  options.memory.context = 256;
  options.memory.held_bytes = 0;
  options.lanes.n_threads = 2;
  return options;
}

std::vector<Logits> talk(engine::Session& session, const TinyModel& model) {
  return test_support::talk(session, random_tokens(model, 60, 5), 50);
}

const NeuronStream* neurons_of(const TinyEngine& engine) {
  const WeightStream* const stream = engine.engine->loaded().stream.get();
  return stream != nullptr ? stream->neurons() : nullptr;
}

double n_neurons_of(const TinyModel& model) {
  return double(model.n_layers) * model.ffn_width * std::max(model.n_experts, 1u);
}

// Returns an engine with the largest limit, to 64 KB, at which no more than this share of the
// neurons has a place.
std::unique_ptr<TinyEngine> engine_with_share(const TinyModel& model, const Options& options,
                                              size_t whole_bytes, double share) {
  const double most = share * n_neurons_of(model);
  return test_support::engine_with_places(model, options, whole_bytes, most,
                                          [](const TinyEngine& engine) -> std::optional<int64_t> {
                                            const NeuronStream* const neurons = neurons_of(engine);
                                            if (neurons == nullptr) return std::nullopt;
                                            return neurons->cache().n_slots();
                                          });
}

struct Case {
  const char* architecture;
  uint32_t type;
  ReadPipeline pipeline;
};

// Gives a test a folder of its own for side files.
class OwnSideFiles {
 protected:
  OwnSideFiles() { setenv("XDG_CACHE_HOME", folder_.file("cache").c_str(), 1); }
  ~OwnSideFiles() { unsetenv("XDG_CACHE_HOME"); }

 private:
  test::TempFolder folder_;
};

class StreamedNeurons : public OwnSideFiles, public testing::TestWithParam<Case> {};
class NeuronFaults : public OwnSideFiles, public testing::Test {};

TEST_P(StreamedNeurons, P6P10ResultsAreThoseOfNeuronsInMemory) {
  const TinyModel model = relu_model(GetParam().architecture, GetParam().type);
  Options options = by_neuron();
  options.ffn.pipeline = GetParam().pipeline;
  const TinyEngine whole(model, options);
  ASSERT_EQ(neurons_of(whole), nullptr);
  const std::vector<Logits> expected = talk(*whole.session, model);
  for (const double share : {0.7, 0.25}) {
    const auto streamed =
        engine_with_share(model, options, whole.engine->ledger().total_bytes(), share);
    ASSERT_NE(streamed, nullptr) << share;
    EXPECT_EQ(talk(*streamed->session, model), expected) << share;
    const NeuronStream& neurons = *neurons_of(*streamed);
    EXPECT_GT(neurons.counters().cache.misses, 0);
    EXPECT_LE(neurons.cache().most_resident_bytes(), neurons.bytes());
    EXPECT_EQ(streamed->engine->ledger().bytes(plan::Owner::kNeurons), neurons.bytes());
    EXPECT_EQ(neurons.ahead_bytes() > 0, neurons.counters().ahead.n_neurons > 0) << share;
    // Which experts are next is not known, so that none of their neurons is read ahead.
    if (model.n_experts > 0) {
      EXPECT_EQ(neurons.ahead_bytes(), 0u);
    } else {
      EXPECT_TRUE(share < 0.5 || neurons.ahead_bytes() > 0);
    }
  }
}

// Collects the magnitudes of gates behind their activation, block by block.
struct GateMagnitudes : lanes::InputObserver {
  void observe(const model::Op&, const float*, int, int) override {}
  void observe_gate(lanes::ObservedFfn ffn, const float* activated, int n_rows,
                    int width) override {
    std::vector<float>& all = of_layers[ffn.layer];
    for (int i = 0; i < n_rows * width; ++i) all.push_back(std::fabs(activated[i]));
  }
  // Returns for each block the magnitude that this share of the gates is below.
  std::vector<float> quantiles(double share) {
    std::vector<float> found;
    for (auto& [layer, all] : of_layers) {
      const auto at = all.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(all.size()));
      std::nth_element(all.begin(), at, all.end());
      found.push_back(*at);
    }
    return found;
  }
  std::map<int, std::vector<float>> of_layers;
};

// Gates of SiLU are never 0, and a threshold says which neurons count as dead.
TEST_F(NeuronFaults, P12ThresholdsOfSiluKeepTheirBitsWhereNeuronsAreRead) {
  TinyModel model = relu_model("llama", test_support::kQ4_0);
  model.activation = "silu";
  Options options = by_neuron();
  options.ffn.form = plan::FfnForm::kEveryNeuron;
  std::vector<Logits> of_all;
  GateMagnitudes gates;
  {
    const TinyEngine every(model, options);
    of_all = talk(*every.session, model);
    every.session->truncate(0);
    engine::Watch watch;
    watch.inputs = &gates;
    every.session->watch(watch);
    (void)talk(*every.session, model);
    options.plan.exact = every.engine->plan();
  }
  options.ffn.form.reset();
  options.plan.exact->ffn = {plan::FfnForm::kByNeuron, gates.quantiles(0.5)};
  ASSERT_EQ(options.plan.exact->ffn.thresholds.size(), model.n_layers);
  const TinyEngine whole(model, options);
  ASSERT_EQ(neurons_of(whole), nullptr);
  const std::vector<Logits> expected = talk(*whole.session, model);
  EXPECT_NE(expected, of_all) << "half of the neurons were left out";
  for (const double share : {0.7, 0.4}) {
    const auto streamed =
        engine_with_share(model, options, whole.engine->ledger().total_bytes(), share);
    ASSERT_NE(streamed, nullptr) << share;
    EXPECT_EQ(talk(*streamed->session, model), expected) << share;
    // About half of the neurons of each token and block were asked for.
    const weights::NeuronCache::Counters cache = neurons_of(*streamed)->counters().cache;
    const double n_all = n_neurons_of(model) * 60;
    EXPECT_GT(static_cast<double>(cache.misses), 0);
    EXPECT_LT(static_cast<double>(cache.hits + cache.misses), 0.9 * n_all);
  }
}

// A model of a file, and the share of its neurons that have places; 0: as few as can be, which are
// two segments.
struct FileCase {
  const char* name;
  double share;
};
class StreamedFiles : public OwnSideFiles, public testing::TestWithParam<FileCase> {
 protected:
  // Returns the path of a model that is shipped, or of planted ones of known shapes.
  std::string model() const {
    if (GetParam().name == std::string("troika-relu")) {
      return test::repository_file("models/troika-relu-q8_0.gguf");
    }
    const std::string path = models_.file("planted.gguf");
    forge::SynthOptions planted = {.like = GetParam().name, .output = path};
    planted.sparsity = {.live = 0.15, .overlap = 0.5};
    planted.n_blocks = planted.like == "small-bamboo" ? 2 : 0;
    forge::synth(planted);
    return path;
  }
  static std::vector<int> answer(engine::Engine& engine) {
    engine::Session session(engine);
    std::vector<text::Token> tokens = {3, 19, 35};
    session.prefill(tokens);
    for (int i = 0; i < 24; ++i) {
      const std::span<const float> logits = session.logits();
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      tokens.push_back(static_cast<text::Token>(best));
      session.append(tokens.back());
    }
    return {tokens.begin(), tokens.end()};
  }

 private:
  test::TempFolder models_;
};

TEST_P(StreamedFiles, P10AnAnswerIsTheSameWithFewNeuronsInMemory) {
  Options options = by_neuron();
  options.model.file = model();
  std::vector<int> expected;
  double n_all = 0.0;
  size_t low = 0, high = 0;  // one is too little, with the other there are too many places
  {
    engine::Engine whole(options);
    expected = answer(whole);
    high = whole.ledger().total_bytes();
    for (const weights::NeuronFfn& ffn : whole.weights().neurons()->ffns()) {
      n_all += ffn.n_neurons();
    }
  }
  std::unique_ptr<engine::Engine> streamed;
  const double most = std::max(GetParam().share * n_all, 2.0 * weights::kSegmentNeurons);
  while (high - low > size_t{16} << 10) {
    options.memory.limit_bytes = low + (high - low) / 2;
    std::unique_ptr<engine::Engine> engine;
    try {
      engine = std::make_unique<engine::Engine>(options);
    } catch (const Error&) {
      low = options.memory.limit_bytes;
      continue;
    }
    const WeightStream* const stream = engine->loaded().stream.get();
    const bool is_more = stream == nullptr || stream->neurons() == nullptr ||
                         static_cast<double>(stream->neurons()->cache().n_slots()) > most;
    (is_more ? high : low) = options.memory.limit_bytes;
    if (!is_more) streamed = std::move(engine);
  }
  ASSERT_NE(streamed, nullptr);
  EXPECT_EQ(answer(*streamed), expected);
  const NeuronStream& neurons = *streamed->loaded().stream->neurons();
  EXPECT_GT(neurons.counters().cache.misses, 0);
  EXPECT_LE(static_cast<double>(neurons.cache().n_slots()), most);
  EXPECT_EQ(neurons.problem(), "");
}

INSTANTIATE_TEST_SUITE_P(Every, StreamedFiles,
                         testing::Values(FileCase{"troika-relu", 0.0}, FileCase{"troika-relu", 0.5},
                                         FileCase{"tiny-bamboo", 0.0},
                                         FileCase{"small-bamboo", 0.0},
                                         FileCase{"small-bamboo", 0.25},
                                         FileCase{"small-bamboo", 0.5}));

// Counts which neurons of a model are hot, and keeps the counts.
tune::HeatReport count_heat(const Options& engine) {
  tune::HeatOptions how;
  how.engine = engine;
  how.engine.memory.limit_bytes = 0;
  how.engine.memory.load = Load::kCopy;  // allows rows to change their places
  how.engine.ffn.pinned_percent.clear();
  how.text = tune::default_text();
  how.most_tokens = 200;
  return tune::measure_heat(how);
}

TEST_F(NeuronFaults, P13StepsOfTheAblationDifferInReadsAndInNoBit) {
  const TinyModel model = relu_model("llama", test_support::kQ4_0);
  Options options = by_neuron();
  options.ffn.form.reset();
  std::vector<Logits> expected;
  size_t whole_bytes = 0;
  {
    Options whole = by_neuron();
    const TinyEngine engine(model, whole);
    expected = talk(*engine.session, model);
    whole_bytes = engine.engine->ledger().total_bytes();
  }
  int64_t n_read = 0;
  for (const plan::NeuronSystem step : {plan::NeuronSystem::kBundle, plan::NeuronSystem::kCache,
                                        plan::NeuronSystem::kPipeline, plan::NeuronSystem::kXpu}) {
    Options own = options;
    own.phone.neurons.system = step;
    const bool is_first = step == plan::NeuronSystem::kBundle;
    take_neuron_stage(&own);
    const auto streamed = engine_with_share(model, own, whole_bytes, 0.7);
    ASSERT_NE(streamed, nullptr);
    EXPECT_EQ(talk(*streamed->session, model), expected);
    const NeuronStream& neurons = *neurons_of(*streamed);
    const int64_t misses = neurons.counters().cache.misses;
    EXPECT_TRUE(is_first || misses < n_read) << misses << " of " << n_read;
    if (is_first) n_read = misses;
    EXPECT_EQ(neurons.ahead_bytes() > 0, step >= plan::NeuronSystem::kPipeline);
    EXPECT_EQ(neurons.cache().n_pins(), 0);
    options.memory.limit_bytes = streamed->engine->ledger().limit_bytes();
  }
  // What the last one adds is what it is given beside it, pins for one.
  Options last = options;
  last.phone.neurons.system = plan::NeuronSystem::kXpu;
  last.ffn.pinned_percent = {50};
  take_neuron_stage(&last);
  const test::TempFolder folder;
  last.model.file = folder.file("tiny.gguf");
  write_tiny_model(model, last.model.file);
  (void)count_heat(last);
  engine::Engine engine(last);
  engine::Session session(engine);
  EXPECT_EQ(talk(session, model), expected);
  ASSERT_NE(engine.loaded().stream, nullptr);
  EXPECT_GT(engine.loaded().stream->neurons()->cache().n_pins(), 0);
  options.phone.neurons.system = plan::NeuronSystem::kPlain;
  EXPECT_THROW(take_neuron_stage(&options), UsageError);
}

INSTANTIATE_TEST_SUITE_P(
    Every, StreamedNeurons,
    testing::Values(Case{"llama", test_support::kQ4_0, ReadPipeline::kCluster},
                    Case{"llama", test_support::kQ8_0, ReadPipeline::kMatrix},
                    Case{"bamboo", test_support::kQ4_0, ReadPipeline::kCluster},
                    Case{"mixtral", test_support::kQ4_0, ReadPipeline::kCluster},
                    Case{"mixtral", test_support::kQ8_0, ReadPipeline::kMatrix}));

// Where memory has no room for the gates of all experts, a router's choice says which are read.
TEST_F(NeuronFaults, P3GatesOfExpertsAreReadByRouteAndChangeNoBit) {
  const TinyModel model = relu_model("mixtral", test_support::kQ4_0);
  for (const plan::Prefill prefill : {plan::Prefill::kSame, plan::Prefill::kQ8}) {
    Options options = by_neuron();
    options.prompts.prefill = prefill;
    const TinyEngine whole(model, options);
    const std::vector<Logits> expected = talk(*whole.session, model);
    int n_by_route = 0, n_in_order = 0;
    options.memory.limit_bytes = whole.engine->ledger().total_bytes();
    for (;; options.memory.limit_bytes -= size_t{512} << 10) {
      std::unique_ptr<TinyEngine> streamed;
      try {
        streamed = std::make_unique<TinyEngine>(model, options);
      } catch (const Error&) {
        break;  // is too little
      }
      const LoadedWeights& loaded = streamed->engine->loaded();
      if (loaded.experts == nullptr) continue;
      ++n_by_route;
      EXPECT_NE(neurons_of(*streamed), nullptr);
      EXPECT_EQ(talk(*streamed->session, model), expected);
      EXPECT_GT(loaded.experts->counters().misses, 0);
      EXPECT_EQ(loaded.experts->mixtures().front().products.size(), 1u);
      EXPECT_EQ(streamed->engine->ledger().bytes(plan::Owner::kWeights),
                loaded.stream->most_bytes() + loaded.experts->bytes());
      EXPECT_LE(streamed->engine->ledger().total_bytes(), options.memory.limit_bytes);
      // Blocks of gates that take turns need places for more at once.
      Options in_order = options;
      in_order.memory.expert_reads = ExpertReads::kInOrder;
      try {
        const TinyEngine blocks(model, in_order);
        EXPECT_EQ(blocks.engine->loaded().experts, nullptr);
        EXPECT_EQ(talk(*blocks.session, model), expected);
        ++n_in_order;
      } catch (const Error&) {
      }
    }
    EXPECT_GT(n_by_route, 1);
    EXPECT_GT(n_in_order, 0);
  }
}

struct PromptCase {
  const char* architecture;
  uint32_t type;
  plan::Prefill prefill;
};
class StreamedPrompts : public OwnSideFiles, public testing::TestWithParam<PromptCase> {};

TEST_P(StreamedPrompts, P2WholeMatricesAreReadForThemAloneAndChangeNoBit) {
  const TinyModel model = relu_model(GetParam().architecture, GetParam().type);
  Options options = by_neuron();
  options.prompts.prefill = GetParam().prefill;
  constexpr int kChunks = 3;
  const std::vector<text::Token> tokens =
      random_tokens(model, static_cast<size_t>(kChunks * options.prompts.chunk + 10), 5);
  const auto own_talk = [&](engine::Session& session) {
    return test_support::talk(session, tokens, kChunks * options.prompts.chunk);
  };
  const TinyEngine whole(model, options);
  const std::vector<Logits> expected = own_talk(*whole.session);
  const auto streamed =
      engine_with_share(model, options, whole.engine->ledger().total_bytes(), 0.5);
  ASSERT_NE(streamed, nullptr);
  EXPECT_EQ(own_talk(*streamed->session), expected);
  const WeightStream& stream = *streamed->engine->loaded().stream;
  ASSERT_NE(stream.prompts(), nullptr);
  EXPECT_EQ(stream.prompts()->n_streamed(), stream.prompts()->n_parts());
  EXPECT_GE(stream.prompts()->n_streamed(), int(model.n_layers));
  // Each chunk of the prompt reads all blocks. Generation behind them reads single neurons.
  EXPECT_EQ(stream.prompts()->counters().n_parts, kChunks * stream.prompts()->n_streamed());
  EXPECT_GT(neurons_of(*streamed)->counters().cache.misses, 0);
  // Nobody has counted what generation could read ahead, so no memory is kept for that.
  EXPECT_EQ(neurons_of(*streamed)->ahead_bytes(), 0u);
  const ExpertStream* const gates = streamed->engine->loaded().experts.get();
  EXPECT_EQ(streamed->engine->ledger().bytes(plan::Owner::kWeights),
            stream.most_bytes() + (gates != nullptr ? gates->bytes() : 0));
  EXPECT_LE(streamed->engine->ledger().total_bytes(), streamed->engine->ledger().limit_bytes());
}

INSTANTIATE_TEST_SUITE_P(
    Every, StreamedPrompts,
    testing::Values(PromptCase{"llama", test_support::kQ4_0, plan::Prefill::kQ8},
                    PromptCase{"llama", test_support::kQ8_0, plan::Prefill::kBf16},
                    PromptCase{"llama", test_support::kQ8_0, plan::Prefill::kInt8},
                    PromptCase{"bamboo", test_support::kQ4_0, plan::Prefill::kQ8},
                    PromptCase{"mixtral", test_support::kQ4_0, plan::Prefill::kQ8},
                    PromptCase{"mixtral", test_support::kQ8_0, plan::Prefill::kBf16},
                    PromptCase{"mixtral", test_support::kQ8_0, plan::Prefill::kInt8}));

class StreamTraces : public OwnSideFiles, public testing::Test {};

TEST_F(StreamTraces, P10ReadsHaveRowsOfTheirOwn) {
  const TinyModel model = relu_model("llama", test_support::kQ4_0);
  const Options options = by_neuron();
  size_t whole_bytes = 0;
  {
    const TinyEngine whole(model, options);
    whole_bytes = whole.engine->ledger().total_bytes();
  }
  const auto streamed = engine_with_share(model, options, whole_bytes, 0.1);
  ASSERT_NE(streamed, nullptr);
  const std::vector<std::string> rows = streamed->engine->passes().trace_rows();
  ASSERT_EQ(rows.back(), "reads of neurons");
  Trace trace(rows);
  streamed->session->watch({.trace = &trace});
  (void)talk(*streamed->session, model);
  int n_neurons = 0;
  for (const TraceEvent& event : trace.events()) {
    if (event.lane + 1 != static_cast<int>(rows.size())) continue;
    ++n_neurons;
    EXPECT_GE(event.end_us, event.start_us);
    EXPECT_LT(event.block, int(model.n_layers));
  }
  EXPECT_GT(n_neurons, 0);
}

// Counting which neurons are hot moves them on the disk and in memory, but changes no bit.
class HotNeurons : public OwnSideFiles, public testing::Test {};

TEST_F(HotNeurons, P5P8TheyStayInMemoryAndChangeNoBit) {
  const TinyModel model = relu_model("llama", test_support::kQ4_0);
  Options options = by_neuron();
  std::vector<Logits> expected;
  size_t whole_bytes = 0;
  {
    const TinyEngine whole(model, options);
    expected = talk(*whole.session, model);
    whole_bytes = whole.engine->ledger().total_bytes();
  }
  options.memory.limit_bytes =
      engine_with_share(model, options, whole_bytes, 0.5)->engine->ledger().limit_bytes();
  const test::TempFolder folder;
  options.model.file = folder.file("tiny.gguf");
  write_tiny_model(model, options.model.file);
  options.ffn.pinned_percent = {50};
  EXPECT_NE(
      test::message_of<UsageError>([&] { engine::Engine engine(options); }).find("troika neurons"),
      std::string::npos);
  const tune::HeatReport report = count_heat(options);
  EXPECT_EQ(report.heat.n_tokens(), 200u);
  EXPECT_GT(report.heat.live_share(), 0.2);
  EXPECT_LT(report.heat.live_share(), 0.8);
  for (const std::vector<int>& percent :
       std::vector<std::vector<int>>{{0}, {50}, {100}, {80, 0, 40, 10}}) {
    options.ffn.pinned_percent = percent;
    options.ffn.reads_ahead = percent.front() != 100;
    engine::Engine engine(options);
    ASSERT_NE(engine.loaded().stream, nullptr);
    engine::Session session(engine);
    EXPECT_EQ(talk(session, model), expected) << percent.front();
    const NeuronStream& neurons = *engine.loaded().stream->neurons();
    EXPECT_EQ(neurons.cache().n_pins() > 0, percent.front() > 0);
    EXPECT_GT(neurons.counters().cache.hits, 0);
    EXPECT_EQ(neurons.counters().ahead.n_neurons > 0, options.ffn.reads_ahead);
  }
}

// Two lanes would ask one stream for the neurons of their tokens at once.
TEST_F(NeuronFaults, P10TokensThatLanesShareAreRefusedWhereNeuronsAreRead) {
  const TinyModel model = relu_model("llama", test_support::kQ4_0);
  Options options = by_neuron();
  options.lanes.n_threads = 0;
  options.lanes.cores = {{{}, 1}, {{}, 1}};
  const TinyEngine undivided(model, options);
  const std::vector<Logits> expected = talk(*undivided.session, model);
  // Undivided tokens take neurons from the disk.
  const auto streamed =
      engine_with_share(model, options, undivided.engine->ledger().total_bytes(), 0.5);
  ASSERT_NE(streamed, nullptr);
  EXPECT_EQ(talk(*streamed->session, model), expected);
  const size_t bytes = streamed->engine->ledger().limit_bytes();
  Options cut = options, length = options;
  cut.lanes.cuts = {plan::cut_from_text("ffn=tokens:0:16,1:16")};
  length.lanes.lengths = {plan::length_from_text("0:16,1:12")};
  for (Options* divided : {&cut, &length}) {
    const TinyEngine whole(model, *divided);
    EXPECT_EQ(talk(*whole.session, model), expected);
    divided->memory.limit_bytes = bytes;
    const std::string problem = test::message_of<Error>([&] {
      const TinyEngine engine(model, *divided);
      (void)talk(*engine.session, model);
    });
    EXPECT_NE(problem.find("no tokens of 'ffn' divided by ‹cut› or ‹length›"), std::string::npos)
        << problem;
  }
  options.memory.limit_bytes = bytes;
  options.lanes.cuts = {plan::cut_from_text("qkv=tokens:0:16,1:16")};
  const TinyEngine others(model, options);  // divides what reads no neurons
  ASSERT_NE(neurons_of(others), nullptr);
  EXPECT_EQ(talk(*others.session, model), expected);
}

TEST_F(NeuronFaults, P10WhatAFileThatWasCutShortLacksComesFromTheModel) {
  const TinyModel model = relu_model("llama", test_support::kQ8_0);
  const Options options = by_neuron();
  const TinyEngine whole(model, options);
  const std::vector<Logits> expected = talk(*whole.session, model);
  const auto streamed =
      engine_with_share(model, options, whole.engine->ledger().total_bytes(), 0.3);
  ASSERT_NE(streamed, nullptr);
  const std::string path = neurons_of(*streamed)->file().path();
  ASSERT_EQ(::truncate(path.c_str(), 4096), 0);
  EXPECT_EQ(talk(*streamed->session, model), expected);
  EXPECT_GT(neurons_of(*streamed)->counters().n_from_model, 0);
  EXPECT_NE(neurons_of(*streamed)->problem().find("the file ends at byte"), std::string::npos);
}

}  // namespace
}  // namespace troika::prepare
