// Feed-forward blocks by neuron where memory has no room for all neurons (P5, P6, P7, P10): results
// are those of weights in memory, whatever the budget and the pipeline.
#include "prepare/streaming/neuron_stream.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/system.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_engine.h"

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
  model.type = type;
  return model;
}

Options by_neuron() {
  Options options;
  options.ffn.form = plan::FfnForm::kByNeuron;
  options.prompts.prefill = plan::Prefill::kSame;
  options.prompts.chunk = 32;
  options.memory.context = 256;
  options.lanes.n_threads = 2;
  return options;
}

std::vector<Logits> talk(engine::Session& session, const TinyModel& model) {
  const std::vector<cache::Token> tokens = random_tokens(model, 60, 5);
  std::vector<Logits> all;
  session.prefill(std::span(tokens).first(50));
  all.push_back(copy_of(session.logits()));
  for (size_t i = 50; i < tokens.size(); ++i) {
    session.append(tokens[i]);
    all.push_back(copy_of(session.logits()));
  }
  return all;
}

const NeuronStream* neurons_of(const TinyEngine& engine) {
  const WeightStream* const stream = engine.engine->loaded().stream.get();
  return stream != nullptr ? stream->neurons() : nullptr;
}

// What the process has counts too, and varies: a limit is looked for with which this share of the
// neurons, or less, has a place.
std::unique_ptr<TinyEngine> engine_with_share(const TinyModel& model, Options options,
                                              size_t whole_bytes, double share) {
  options.memory.limit_bytes = resident_bytes() + whole_bytes;
  for (int i = 0; i < 200; ++i) {
    try {
      auto engine = std::make_unique<TinyEngine>(model, options);
      const NeuronStream* const neurons = neurons_of(*engine);
      const double wanted = share * double(model.n_layers) * model.ffn_width;
      size_t less = size_t{1} << 20;
      if (neurons != nullptr) {
        const auto n_places = static_cast<double>(neurons->cache().n_slots());
        if (n_places <= wanted) return engine;
        const double place_bytes = double(neurons->bytes()) / n_places;
        less = size_t{64 << 10} + static_cast<size_t>((n_places - wanted) * place_bytes);
      }
      options.memory.limit_bytes -= less;
    } catch (const Error&) {
      options.memory.limit_bytes += size_t{80} << 10;
    }
  }
  return nullptr;
}

struct Case {
  const char* architecture;
  uint32_t type;
  NeuronPipeline pipeline;
};

// Side files of these tests are theirs.
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
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, StreamedNeurons,
    testing::Values(Case{"llama", test_support::kQ4_0, NeuronPipeline::kCluster},
                    Case{"llama", test_support::kQ8_0, NeuronPipeline::kMatrix},
                    Case{"bamboo", test_support::kQ4_0, NeuronPipeline::kCluster}));

TEST_F(NeuronFaults, P10AFileCutShortWhileRunningEndsThePassWithASentence) {
  const TinyModel model = relu_model("llama", test_support::kQ8_0);
  const Options options = by_neuron();
  size_t whole_bytes = 0;
  {
    const TinyEngine whole(model, options);
    whole_bytes = whole.engine->ledger().total_bytes();
  }
  const auto streamed = engine_with_share(model, options, whole_bytes, 0.3);
  ASSERT_NE(streamed, nullptr);
  const std::string path = neurons_of(*streamed)->file().path();
  ASSERT_EQ(::truncate(path.c_str(), 4096), 0);
  try {
    (void)talk(*streamed->session, model);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the file ends at byte"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace troika::prepare
