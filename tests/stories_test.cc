// A trained model has the known perplexity on real text.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/session.h"
#include "tests/reference/forward.h"

namespace troika {
namespace {

constexpr size_t kWindow = 512;  // has room for BOS and at most 511 tokens of a story

class Stories : public testing::Test {
 protected:
  void SetUp() override {
    const char* data = std::getenv("TROIKA_DATA");
    if (data == nullptr) GTEST_SKIP() << "TROIKA_DATA is not set: no trained model, no stories";
    options_.model.file = std::string(data) + "/models/stories260K.gguf";
    options_.memory.context = kWindow;
    std::ifstream stream(std::string(data) + "/text/tinystories_1000.json");
    stories_ = nlohmann::json::parse(stream).get<std::vector<std::string>>();
  }

  std::vector<text::Token> tokens_of(const engine::Engine& engine, size_t story) const {
    std::vector<text::Token> tokens = engine.tokenizer().encode(stories_.at(story));
    if (tokens.size() > kWindow) tokens.resize(kWindow);
    return tokens;
  }

  // Holds the mean over some stories, and the number of predicted tokens.
  struct Score {
    double nll = 0;
    size_t n_tokens = 0;
  };
  Score score(size_t n_stories) const {
    engine::Engine engine(options_);
    engine::Session session(engine);
    Score score;
    for (size_t story = 0; story < n_stories; ++story) {
      const std::vector<text::Token> tokens = tokens_of(engine, story);
      session.truncate(0);
      session.evaluate(tokens, [&](int index, std::span<const float> logits) {
        const size_t next = static_cast<size_t>(index) + 1;
        if (next == tokens.size()) return;
        score.nll +=
            reference::negative_log_likelihood({logits.begin(), logits.end()}, tokens[next]);
        ++score.n_tokens;
      });
    }
    score.nll /= static_cast<double>(score.n_tokens);
    return score;
  }

  prepare::Options options_;
  std::vector<std::string> stories_;
};

TEST_F(Stories, HaveTheKnownPerplexity) {
  options_.activations = plan::Activations::kF32;
  options_.memory.kv_type = tensor::Type::kF32;
  const Score score = this->score(100);
  EXPECT_EQ(score.n_tokens, 38168u);
  EXPECT_NEAR(score.nll, 1.6639, 0.00005);
  EXPECT_NEAR(std::exp(score.nll), 5.280, 0.0005);
}

TEST_F(Stories, LoseLittleWithTheDefaultOptions) {
  EXPECT_NEAR(
      score(20).nll,
      [&] {
        options_.activations = plan::Activations::kF32;
        options_.memory.kv_type = tensor::Type::kF32;
        return score(20).nll;
      }(),
      0.002);
}

TEST_F(Stories, AreAsLikelyForTheReference) {
  options_.activations = plan::Activations::kF32;
  options_.memory.kv_type = tensor::Type::kF32;
  engine::Engine engine(options_);
  const reference::Model model(reference::read_gguf(options_.model.file));
  double nll = 0;
  size_t n_tokens = 0;
  for (size_t story = 0; story < 5; ++story) {
    const std::vector<text::Token> tokens = tokens_of(engine, story);
    const auto logits = reference::forward(model, tokens);
    for (size_t i = 0; i + 1 < tokens.size(); ++i, ++n_tokens) {
      nll += reference::negative_log_likelihood(logits[i], tokens[i + 1]);
    }
  }
  const Score score = this->score(5);
  EXPECT_EQ(score.n_tokens, n_tokens);
  EXPECT_NEAR(score.nll, nll / static_cast<double>(n_tokens), 1e-6);
}

}  // namespace
}  // namespace troika
