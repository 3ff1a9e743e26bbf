// Whole engines compute feed-forward blocks by neuron (P1): logits are near those of the reference,
// and their bits depend neither on dead neurons that are left out, nor on widths, threads, lanes or
// other sessions.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "engine/session.h"
#include "tests/support/logits.h"
#include "tests/support/repository.h"
#include "weights/neurons/neurons.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using plan::FfnForm;
using reference::Vector;
using test_support::engine_logits;
using test_support::TinyModel;
using test_support::TinyModelFile;

constexpr size_t kTextTokens = 40;

// Returns a model with three segments of neurons, the last of which is not whole.
TinyModel sparse_model(const std::string& architecture, const std::string& activation,
                       uint32_t type) {
  TinyModel model = test_support::tiny_model(architecture);
  model.ffn_width = model.expert_width = 1280;
  model.activation = activation;
  model.type = type;
  return model;
}

struct Case {
  std::string name, architecture, activation;
  uint32_t type;
};
const Case kCases[] = {
    {"bamboo_f32", "bamboo", "", test_support::kF32},
    {"bamboo_q4_0", "bamboo", "", test_support::kQ4_0},
    {"llama_relu_q8_0", "llama", "relu", test_support::kQ8_0},
    {"llama_relu_q4_k", "llama", "relu", test_support::kQ4_K},
    {"llama_relu_q6_k", "llama", "relu", test_support::kQ6_K},
    {"llama_relu_f16", "llama", "relu", test_support::kF16},
    {"mixtral_relu_f32", "mixtral", "relu", test_support::kF32},
    {"mixtral_relu_q8_0", "mixtral", "relu", test_support::kQ8_0},
    {"mixtral_relu_q4_0", "mixtral", "relu", test_support::kQ4_0},
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class NeuronFfn : public testing::TestWithParam<Case> {
 protected:
  const TinyModel model_ =
      sparse_model(GetParam().architecture, GetParam().activation, GetParam().type);
  const TinyModelFile file_{model_};
  const std::vector<int32_t> tokens_ = test_support::random_tokens(model_, kTextTokens);

  // Returns options with which all tokens are steps, so that each is computed by neuron.
  prepare::Options options(FfnForm form = FfnForm::kByNeuron) const {
    prepare::Options options;
    options.model.file = file_.path();
    options.lanes.n_threads = 1;
    options.memory.context = 128;
    options.prompts.prefill = plan::Prefill::kSame;
    options.ffn.form = form;
    return options;
  }
};

TEST_P(NeuronFfn, P1AgreesWithTheReferenceInFloat) {
  prepare::Options options = file_.float_options();
  options.ffn.form = FfnForm::kByNeuron;
  const auto judge = test_support::reference_logits(model_, tokens_);
  EXPECT_LE(reference::relative_error(engine_logits(options, tokens_), judge), 1e-5);
  options.kernels = "reference";
  EXPECT_LE(reference::relative_error(engine_logits(options, tokens_), judge), 1e-5);
}

TEST_P(NeuronFfn, P1SparseIsDenseToTheBit) {
  const auto sparse = engine_logits(options(), tokens_);
  EXPECT_EQ(engine_logits(options(FfnForm::kEveryNeuron), tokens_), sparse);
  // If the forms had the same bits, the test would show nothing.
  EXPECT_NE(engine_logits(options(FfnForm::kByOutput), tokens_), sparse);
}

TEST_P(NeuronFfn, P1WidthsChangeNoBit) {
  const auto wanted = engine_logits(options(), tokens_);
  for (size_t width = 1; width <= 8; ++width) {
    std::vector<size_t> pieces(kTextTokens / width, width);
    EXPECT_EQ(engine_logits(options(), tokens_, pieces), wanted) << width;
  }
  EXPECT_EQ(engine_logits(options(), tokens_, {17}), wanted);
}

TEST_P(NeuronFfn, P1ThreadsChangeNoBit) {
  const auto wanted = engine_logits(options(), tokens_);
  for (const int n_threads : {2, 3, 5}) {
    prepare::Options other = options();
    other.lanes.n_threads = n_threads;
    EXPECT_EQ(engine_logits(other, tokens_, {1, 2, 9}), wanted) << n_threads;
  }
}

TEST_P(NeuronFfn, P1LanesChangeNoBit) {
  const std::vector<int> cores = usable_core_numbers();
  if (cores.size() < 2) GTEST_SKIP() << "two lanes need two cores";
  prepare::Options two = options();
  two.lanes.n_threads = 0;
  two.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
  two.lanes.placements = {{"ffn", 0, 1}};
  EXPECT_EQ(engine_logits(two, tokens_), engine_logits(options(), tokens_));
}

// Prompts are computed as without neurons, and the steps behind them by neuron.
TEST_P(NeuronFfn, P1PromptsStayAsTheyWere) {
  prepare::Options by_neuron = options(), by_output = options(FfnForm::kByOutput);
  for (prepare::Options* options : {&by_neuron, &by_output}) {
    options->prompts.prefill = plan::Prefill::kBf16;
  }
  EXPECT_EQ(engine_logits(by_neuron, tokens_), engine_logits(by_output, tokens_));
}

INSTANTIATE_TEST_SUITE_P(Every, NeuronFfn, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(NeuronFfns, P1SomeNeuronsAreDead) {
  const TinyModelFile file(sparse_model("llama", "relu", test_support::kQ8_0));
  prepare::Options options;
  options.model.file = file.path();
  options.ffn.form = FfnForm::kByNeuron;
  Engine engine(options);
  ASSERT_NE(engine.weights().neurons(), nullptr);
  EXPECT_EQ(engine.weights().neurons()->ffns().size(), 2u);
  EXPECT_GT(engine.ledger().bytes(plan::Owner::kNeurons), 2u * 1280 * 256);
  EXPECT_EQ(engine.plan().ffn.form, FfnForm::kByNeuron);
}

std::string error_of(const TinyModel& model, const std::function<void(prepare::Options&)>& change) {
  const TinyModelFile file(model);
  prepare::Options options = file.float_options();
  options.ffn.form = FfnForm::kByNeuron;
  change(options);
  return test::message_of<Error>([&] { Engine engine(options); });
}

TEST(NeuronFfns, P1WhatCannotBeIsRefusedInWords) {
  const TinyModel relu = sparse_model("llama", "relu", test_support::kQ8_0);
  const auto nothing = [](prepare::Options&) {};
  EXPECT_EQ(error_of(relu, nothing), "");
  EXPECT_NE(error_of(test_support::tiny_model("llama"), nothing).find("not ReLU"),
            std::string::npos);
  EXPECT_NE(error_of(test_support::tiny_model("phi2"), nothing).find("'phi2' has none"),
            std::string::npos);
  EXPECT_NE(error_of(relu, [](prepare::Options& o) { o.lanes.splits.at_activations = true; })
                .find("‹cut-at-activations›"),
            std::string::npos);
  EXPECT_NE(error_of(relu,
                     [](prepare::Options& o) {
                       o.lanes.cores = {{{}, 1}, {{}, 1}};
                       o.lanes.n_threads = 0;
                       o.lanes.cuts = {plan::cut_from_text("ffn.ffn_down=rows:0:1,1:1")};
                     })
                .find("is computed by neuron"),
            std::string::npos);
  EXPECT_NE(error_of(relu, [](prepare::Options& o) { o.memory.limit_bytes = 4 << 20; })
                .find("is too little"),
            std::string::npos);
}

// Thresholds of a plan skip neurons of models without ReLU. Thresholds below every magnitude skip
// none.
TEST(NeuronFfns, P12ThresholdsSkipNeuronsOfSilu) {
  const TinyModelFile file(test_support::tiny_model("llama"));
  const std::vector<int32_t> tokens =
      test_support::random_tokens(test_support::tiny_model("llama"), 20);
  prepare::Options options;
  options.model.file = file.path();
  options.lanes.n_threads = 1;
  options.memory.context = 128;
  options.prompts.prefill = plan::Prefill::kSame;
  options.ffn.form = FfnForm::kEveryNeuron;
  const auto wanted = engine_logits(options, tokens);
  Engine engine(options);
  const auto with_threshold = [&](float threshold) {
    prepare::Options own = options;
    own.ffn.form.reset();
    own.plan.exact = engine.plan();
    own.plan.exact->ffn = {FfnForm::kByNeuron, {threshold, threshold}};
    return engine_logits(own, tokens);
  };
  EXPECT_EQ(with_threshold(1e-30f), wanted);
  EXPECT_NE(with_threshold(0.5f), wanted);
}

}  // namespace
}  // namespace troika
