// A model with planted outliers computes what it computed without them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "forge/plant_outliers.h"
#include "tests/support/logits.h"

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
