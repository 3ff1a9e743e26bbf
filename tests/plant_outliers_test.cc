// A model with planted outliers computes what it computed without them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "forge/plant_outliers.h"
#include "tests/support/logits.h"
#include "tune/attention/attention_statistics.h"

namespace troika {
namespace {

using reference::relative_error;
using test_support::engine_logits;
using test_support::NamedModel;
using test_support::TinyModel;
using test_support::TinyModelFile;

constexpr size_t kPlantedTokens = 40;
constexpr double kBound = 1e-4;

class Planted : public testing::TestWithParam<NamedModel> {
 protected:
  // Plants outliers into a model and returns the path of the new one.
  std::string plant(const std::string& input) {
    forge::PlantOptions options;
    options.input = input;
    options.output = folder_.file("planted.gguf");
    options.channels = 0.02;
    n_sites_ = forge::plant_outliers(options).sites.size();
    return options.output;
  }

  test::TempFolder folder_;
  size_t n_sites_ = 0;
};

TEST_P(Planted, ComputesTheSame) {
  const TinyModel& model = GetParam().model;
  const auto tokens = test_support::random_tokens(model, kPlantedTokens);
  const TinyModelFile file(model);
  prepare::Options options = file.float_options();
  const auto before = engine_logits(options, tokens);
  const auto judge = test_support::reference_logits(model, tokens);
  options.model.file = plant(file.path());
  const auto after = engine_logits(options, tokens);
  // Every layer has four places where an activation can be scaled: before attention, in it, before
  // the feed-forward and in it. phi2 has no place before it, and routers of experts read the same
  // input, so these models have two.
  const bool has_two = model.architecture == "phi2" || model.n_experts > 0;
  EXPECT_GE(n_sites_, (has_two ? 2 : 4) * model.n_layers);
  const double error = relative_error(after, before);
  std::printf("%s: error %.2e\n", GetParam().name.c_str(), error);
  EXPECT_LE(error, kBound);
  // The reference reads the planted file with its own reader.
  const reference::Model planted(reference::read_gguf(options.model.file));
  EXPECT_LE(relative_error(reference::forward(planted, tokens), judge), kBound);
}

// Queries of heads are scaled, and keys back, so that scores are what they were, and the scales of
// heads spread (S4).
TEST(PlantedHeads, S4ScalesSpreadAndTheModelComputesTheSame) {
  const test::TempFolder folder;
  for (const char* architecture :
       {"llama", "qwen2", "phi3"}) {  // phi3 has one tensor for all three
    TinyModel model = test_support::tiny_model(architecture);
    model.context = 1024;
    const TinyModelFile file(model);
    forge::PlantOptions plant;
    plant.input = file.path();
    plant.output = folder.file("heads.gguf");
    plant.scale = 1;
    plant.head_scale = 4;
    const forge::PlantReport report = forge::plant_outliers(plant);
    EXPECT_GT(report.n_scaled_heads, 0u);
    EXPECT_TRUE(report.sites.empty());
    prepare::Options options = file.float_options();
    const auto tokens = test_support::random_tokens(model, kPlantedTokens);
    const auto before = engine_logits(options, tokens);
    const auto scales_of = [&] {
      prepare::Options full = options;
      full.memory.context = 1024;
      full.memory.kv_type = tensor::Type::kF16;
      full.prompts.prefill = plan::Prefill::kBf16;
      engine::Engine engine(full);
      tune::AttentionStatistics statistics(engine.kernels().table, engine.blueprint(), 512, 1);
      engine::Session session(engine);
      session.watch({.inputs = &statistics});
      session.prefill(test_support::random_tokens(model, 700));
      return statistics.head_scales();
    };
    const std::vector<float> plain = scales_of();
    options.model.file = plant.output;
    EXPECT_LE(relative_error(engine_logits(options, tokens), before), kBound) << architecture;
    const std::vector<float> planted = scales_of();
    ASSERT_EQ(planted.size(), plain.size());
    std::set<int> exponents;
    for (size_t head = 0; 2 * head < plain.size(); ++head) {
      const double of_q = std::log2(planted[2 * head] / plain[2 * head]);
      const double of_k = std::log2(planted[2 * head + 1] / plain[2 * head + 1]);
      EXPECT_NEAR(of_q, std::round(of_q), 0.05) << architecture;
      EXPECT_NEAR(of_k, -std::round(of_q), 0.05) << architecture;
      exponents.insert(static_cast<int>(std::round(of_q)));
    }
    EXPECT_GT(exponents.size(), 1u) << architecture;
    EXPECT_GE(*exponents.begin(), -2);
    EXPECT_LE(*exponents.rbegin(), 2);
  }
}

// In qwen3 a norm behind queries and keys would take the scales away.
TEST(PlantedHeads, S4NormsBehindQueriesAreASentence) {
  const test::TempFolder folder;
  const TinyModelFile file(test_support::tiny_model("qwen3"));
  forge::PlantOptions plant;
  plant.input = file.path();
  plant.output = folder.file("heads.gguf");
  plant.head_scale = 4;
  EXPECT_THROW(forge::plant_outliers(plant), UsageError);
  for (const int scale : {0, 3, 512}) {
    plant.head_scale = scale;
    EXPECT_THROW(forge::plant_outliers(plant), UsageError) << scale;
  }
  plant.head_scale = plant.scale = 1;
  EXPECT_THROW(forge::plant_outliers(plant), UsageError);
}

std::vector<NamedModel> models() {
  std::vector<NamedModel> all = test_support::tiny_model_variants();
  for (const auto& [name, type] : test_support::tensor_types()) {
    TinyModel model = test_support::tiny_model("llama");
    model.type = type;
    all.push_back({std::string("llama in ") + name, model});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Every, Planted, testing::ValuesIn(models()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == ' '; }, '_');
  return name;
});

}  // namespace
}  // namespace troika
