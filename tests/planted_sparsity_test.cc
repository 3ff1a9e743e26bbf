// In models with planted sparsity, neurons fire by the law that was asked for, and computing them
// by neuron gives what computing all neurons gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "engine/session.h"
#include "forge/plant_sparsity.h"
#include "forge/synth.h"
#include "model/gated_ffns.h"
#include "tests/support/temp_folder.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using forge::SparsityLaw;

TEST(PlantedLaw, FrequenciesHaveTheWantedMean) {
  for (const bool is_double : {false, true}) {
    for (const double live : {0.02, 0.15, 0.5}) {
      const std::vector<double> f = forge::live_frequencies({.live = live}, 1000, is_double);
      EXPECT_NEAR(std::accumulate(f.begin(), f.end(), 0.0) / 1000, live, 1e-6);
      EXPECT_TRUE(std::is_sorted(f.rbegin(), f.rend()));
      EXPECT_LE(f.front(), is_double ? 0.98 * 0.8 : 0.98);
    }
  }
  EXPECT_NEAR(forge::normal_quantile_above(0.5), 0.0, 1e-9);
  EXPECT_NEAR(forge::normal_quantile_above(0.15865525393), 1.0, 1e-6);
}

// Records for each block which neurons were live for each token.
class LiveNeurons : public lanes::InputObserver {
 public:
  explicit LiveNeurons(const model::Blueprint& blueprint) {
    for (const model::GatedFfn& ffn : model::gated_ffns(blueprint)) layers_[ffn.down] = ffn.layer;
  }
  void observe(const model::Op& op, const float* x, int n_rows, int width) override {
    if (!layers_.contains(op.weight)) return;
    for (int row = 0; row < n_rows; ++row, x += width) {
      std::vector<char> live(static_cast<size_t>(width));
      for (size_t i = 0; i < live.size(); ++i) live[i] = x[i] != 0.0f;
      seen[layers_[op.weight]].push_back(std::move(live));
    }
  }
  std::map<int, std::vector<std::vector<char>>> seen;

 private:
  std::map<model::WeightId, int> layers_;
};

struct Measured {
  double live = 0.0;   // is the mean share of live neurons
  double again = 0.0;  // is the share of live neurons that were live for the token before
};

// Measures a planted model with random tokens of one topic.
Measured measure(const SparsityLaw& law, const std::string& type) {
  test::TempFolder folder;
  const std::string path = folder.file("planted.gguf");
  forge::synth({.like = "tiny-bamboo", .output = path, .type = type, .sparsity = law});
  prepare::Options options;
  options.model.file = path;
  options.lanes.n_threads = 1;
  Engine engine(options);
  Session session(engine);
  LiveNeurons live(engine.blueprint());
  engine::Watch watch;
  watch.inputs = &live;
  session.watch(watch);
  session.prefill(std::vector<text::Token>{3});
  const auto n_topic = static_cast<uint64_t>(engine.blueprint().n_vocab) / forge::kPlantedTopics;
  for (uint64_t i = 0; i < 100; ++i) {
    session.append(
        static_cast<text::Token>(3 + forge::kPlantedTopics * (random_bits(9, i) % n_topic)));
    session.logits();  // makes the token a step
  }
  Measured result;
  double n_live = 0, n_again = 0, n_pairs = 0;
  for (const auto& [layer, tokens] : live.seen) {
    for (size_t t = 1; t < tokens.size(); ++t) {
      for (size_t i = 0; i < tokens[t].size(); ++i) {
        n_live += tokens[t][i];
        n_again += tokens[t][i] & tokens[t - 1][i];
        ++n_pairs;
      }
    }
  }
  return {n_live / n_pairs, n_again / n_live};
}

TEST(PlantedLaw, TokensHaveTheWantedShareOfLiveNeurons) {
  for (const auto& [type, live] :
       {std::pair("q4_0", 0.05), std::pair("q4_0", 0.15), std::pair("q4_0", 0.4),
        std::pair("f16", 0.15), std::pair("q8_0", 0.15), std::pair("f16", 0.5)}) {
    EXPECT_NEAR(measure({.live = live, .overlap = 0.5}, type).live, live, 0.015) << type;
  }
}

// Counts what gates of experts leave live.
struct LiveGates : lanes::InputObserver {
  void observe(const model::Op&, const float*, int, int) override {}
  void observe_gate(lanes::ObservedFfn ffn, const float* activated, int n_rows,
                    int width) override {
    shown.insert(ffn.index);
    const size_t n = static_cast<size_t>(n_rows) * static_cast<size_t>(width);
    n_all += static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) n_live += activated[i] != 0.0f;
  }
  std::set<int> shown;
  double n_all = 0, n_live = 0;
};

TEST(PlantedLaw, P3ExpertsHaveTheWantedShareOfLiveNeurons) {
  test::TempFolder folder;
  constexpr double kLive = 0.15;
  prepare::Options options;
  options.model.file = folder.file("planted.gguf");
  forge::synth({.like = "tiny-turbosparse",
                .output = options.model.file,
                .type = "q8_0",
                .sparsity = {.live = kLive, .overlap = 0.5}});
  options.ffn.form = plan::FfnForm::kByNeuron;
  options.prompts.prefill = plan::Prefill::kSame;
  Engine engine(options);
  Session session(engine);
  LiveGates gates;
  engine::Watch watch;
  watch.inputs = &gates;
  session.watch(watch);
  std::vector<text::Token> tokens(200);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<text::Token>(1 + i * 3);
  session.prefill(tokens);
  EXPECT_EQ(gates.shown.size(), 16u);  // eight experts in each of two blocks
  EXPECT_EQ(gates.n_all, 2.0 * 2.0 * 512.0 * 200.0);
  // The other factor is above 0 for four fifths of them.
  EXPECT_NEAR(0.8 * gates.n_live / gates.n_all, kLive, 0.25 * kLive);
}

// Without a topic, random tokens have as many neurons in common as the neurons' frequencies give.
TEST(PlantedLaw, TokensHaveMoreInCommonTheLargerTheOverlap) {
  const std::vector<double> f = forge::live_frequencies({.live = 0.15}, 512, true);
  double sum = 0, squares = 0;
  for (const double value : f) {
    sum += value;
    squares += value * value;
  }
  const double none = measure({.live = 0.15, .overlap = 0.0}, "q8_0").again;
  const double half = measure({.live = 0.15, .overlap = 0.5}, "q8_0").again;
  const double most = measure({.live = 0.15, .overlap = 0.9}, "q8_0").again;
  EXPECT_NEAR(none, squares / sum, 0.25 * squares / sum);
  EXPECT_GT(half, none + 0.05);
  EXPECT_GT(most, half + 0.05);
}

class PlantedModels : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Every, PlantedModels, testing::Values("tiny-bamboo", "tiny-turbosparse"));

TEST_P(PlantedModels, P1P3WhatIsComputedByNeuronIsWhatAllNeuronsCompute) {
  test::TempFolder folder;
  const std::string path = folder.file("planted.gguf");
  forge::synth({.like = GetParam(),
                .output = path,
                .type = "q4_0",
                .sparsity = {.live = 0.15, .overlap = 0.9}});
  std::vector<std::vector<float>> rows;
  for (const plan::FfnForm form : {plan::FfnForm::kByNeuron, plan::FfnForm::kEveryNeuron}) {
    prepare::Options options;
    options.model.file = path;
    options.ffn.form = form;
    Engine engine(options);
    Session session(engine);
    session.prefill(std::vector<text::Token>{3});
    for (const text::Token token : {19, 35, 51, 67}) {
      session.append(token);
      session.logits();
    }
    rows.emplace_back(session.logits().begin(), session.logits().end());
  }
  EXPECT_EQ(rows[0], rows[1]);
}

TEST(PlantedLaw, WhatCannotBePlantedIsRefusedInWords) {
  test::TempFolder folder;
  const auto error_of = [&](const std::string& like, const std::string& type, SparsityLaw law) {
    return test::message_of<UsageError>([&] {
      forge::synth({.like = like, .output = folder.file("x.gguf"), .type = type, .sparsity = law});
    });
  };
  EXPECT_NE(error_of("tiny-llama", "q4_0", {.live = 0.2}).find("with ReLU"), std::string::npos);
  EXPECT_NE(error_of("tiny-bamboo", "q4_0", {.live = 0.9}).find("share of live"),
            std::string::npos);
  EXPECT_NE(error_of("tiny-bamboo", "q4_0", {.live = 0.2, .overlap = 1.0}).find("‹overlap›"),
            std::string::npos);
  EXPECT_NE(error_of("tiny-bamboo", "q4_k_m", {.live = 0.2}).find("thresholds"), std::string::npos);
}

}  // namespace
}  // namespace troika
