// The models that the project trains and ships load, compute what the reference computes, and give
// the same text however they are run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/generate.h"
#include "tests/support/logits.h"

namespace troika {
namespace {

using reference::relative_error;
using text::Token;

// These are the largest allowed errors, as parts of the largest logit: for activations in float,
// and for activations rounded to 8 bits as the program does by default.
constexpr double kFloatBound = 1e-5;
constexpr double kInt8Bound = 0.12;
// The ReLU model is trained for this share of active neurons.
constexpr double kMostActive = 0.15;

// The story was written for this test, so no model has read it.
constexpr const char* kStory =
    "Once upon a time there was a small brown horse who lived behind the mill. Every morning the "
    "miller's boy brought her an apple. \"Good morning,\" he said, \"will you carry the flour to "
    "the village today?\" The horse shook her head, for it had snowed in the night and the road "
    "was white.\n\nItem: copper lantern\nPrice: $17.50\nShelf: K42\n\nQuestion: What is the "
    "price?\nAnswer: $17.50";

class Trained : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    path_ = std::string(TROIKA_MODELS) + "/troika-" + GetParam() + "-q8_0.gguf";
    if (!std::filesystem::exists(path_)) {
      GTEST_SKIP() << path_ << " is missing: the recipe in models/train makes it";
    }
  }

  prepare::Options options(int n_threads = 1) const {
    prepare::Options options;
    options.model.file = path_;
    options.lanes.n_threads = n_threads;
    options.memory.context = 512;
    return options;
  }

  static std::vector<Token> tokens_of(const engine::Engine& engine, const std::string& text) {
    return engine.tokenizer().encode(text);
  }

  std::string path_;
};

TEST_P(Trained, AgreesWithTheReference) {
  const reference::Model model(reference::read_gguf(path_));
  EXPECT_EQ(model.activation, GetParam().substr(0, 4));
  prepare::Options in_float = options();
  in_float.activations = plan::Activations::kF32;
  in_float.memory.kv_type = tensor::Type::kF32;
  engine::Engine engine(in_float);
  engine::Session session(engine);
  const std::vector<Token> tokens = tokens_of(engine, kStory);
  const auto judge = reference::forward(model, tokens);
  const double float_error = relative_error(test_support::engine_logits(session, tokens), judge);
  const double error = relative_error(test_support::engine_logits(options(), tokens), judge);
  std::printf("%s: error %.2e in float, %.2e by default\n", GetParam().c_str(), float_error, error);
  EXPECT_LE(float_error, kFloatBound);
  EXPECT_LE(error, kInt8Bound);
}

// A trained model has learned the language of the text. A random one would need log(vocabulary)
// nats for each token, which is 8.3.
TEST_P(Trained, PredictsText) {
  engine::Engine engine(options());
  engine::Session session(engine);
  const std::vector<Token> tokens = tokens_of(engine, kStory);
  const auto logits = test_support::engine_logits(session, tokens);
  double nats = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    nats += reference::negative_log_likelihood(logits[i], tokens[i + 1]);
  }
  EXPECT_LE(nats / static_cast<double>(tokens.size() - 1), 5.0);
}

TEST_P(Trained, SaysTheSameOnAnyThreadsAndInAnyPieces) {
  const auto greedy = [&](int n_threads, size_t piece) {
    engine::Engine engine(options(n_threads));
    engine::Session session(engine);
    const std::vector<Token> prompt = tokens_of(engine, "Once upon a time");
    for (size_t n = piece; n < prompt.size(); n += piece) {
      session.prefill(std::span(prompt).first(n));
    }
    engine::SamplerOptions sampling;
    sampling.temperature = 0;
    engine::Sampler sampler(sampling);
    engine::GenerateOptions length;
    length.most_tokens = 60;
    return engine::generate(session, prompt, sampler, length, {}).text;
  };
  const std::string once = greedy(1, 100);
  EXPECT_GT(once.size(), 60u) << once;
  EXPECT_EQ(greedy(2, 100), once);
  EXPECT_EQ(greedy(3, 1), once);
  EXPECT_EQ(greedy(1, 2), once);
}

TEST_P(Trained, HasAChatTemplateAndEndsItsAnswers) {
  engine::Engine engine(options());
  EXPECT_TRUE(engine.file().find_string("tokenizer.chat_template").has_value());
  const auto end = *engine.file().find_uint("tokenizer.ggml.eos_token_id");
  EXPECT_TRUE(engine.tokenizer().is_end(static_cast<Token>(end)));
}

INSTANTIATE_TEST_SUITE_P(Every, Trained, testing::Values("silu", "relu", "silu-4k"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class TrainedRelu : public Trained {};

TEST_P(TrainedRelu, FewNeuronsFire) {
  engine::Engine engine(options());
  const reference::Model model(reference::read_gguf(path_));
  reference::Sequence sequence(model);
  for (const Token token : tokens_of(engine, kStory)) sequence.next(token);
  std::printf("%.1f%% of the neurons fire\n", 100 * sequence.active_share());
  EXPECT_LT(sequence.active_share(), kMostActive);
  EXPECT_GT(sequence.active_share(), 0.01);
}

INSTANTIATE_TEST_SUITE_P(The, TrainedRelu, testing::Values("relu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace troika
