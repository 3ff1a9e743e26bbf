#include "engine/generate.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/clock.h"
#include "base/error.h"
#include "tests/support/tiny_engine.h"

namespace troika::engine {
namespace {

using test_support::random_tokens;
using test_support::small_model;
using test_support::TinyEngine;

class Generate : public testing::Test {
 protected:
  static prepare::Options options() {
    prepare::Options o;
    o.memory.context = 40;
    return o;
  }
  Generated run(const GenerateOptions& o, size_t n_prompt = 5) {
    shown_.clear();
    SamplerOptions s;
    s.temperature = 0.0f;
    Sampler sampler(s);
    const auto prompt = random_tokens(small_model(), n_prompt);
    return generate(*tiny_.session, prompt, sampler, o,
                    [&](std::string_view text, int) { shown_ += text; });
  }
  static GenerateOptions length(int n) {
    GenerateOptions o;
    o.most_tokens = n;
    o.ignore_end = true;
    return o;
  }

  TinyEngine tiny_{small_model(), options()};
  std::string shown_;
};

TEST_F(Generate, StopsAfterTheWantedNumberOfTokens) {
  const auto start = std::chrono::steady_clock::now();
  const Generated g = run(length(7));
  const double seconds = seconds_since(start);
  EXPECT_EQ(g.stop, Stop::kLength);
  EXPECT_EQ(g.tokens.size(), 7u);
  EXPECT_EQ(g.n_prompt, 5);
  EXPECT_EQ(g.n_computed, 5);
  EXPECT_EQ(g.n_steps, 6);
  EXPECT_EQ(g.text, shown_);
  EXPECT_GT(g.prefill_seconds, 0);
  EXPECT_GT(g.decode_seconds, 0);
  EXPECT_LE(g.prefill_seconds + g.decode_seconds, seconds);
  EXPECT_EQ(tiny_.session->history().size(), 12u);
}

TEST_F(Generate, NoTokensAreNoTokens) {
  const Generated g = run(length(0));
  EXPECT_EQ(g.stop, Stop::kLength);
  EXPECT_TRUE(g.tokens.empty());
  EXPECT_EQ(g.text, "");
  EXPECT_EQ(g.n_steps, 0);
  EXPECT_EQ(g.decode_seconds, 0);
  EXPECT_EQ(g.decode_tokens_per_s(), 0);
}

TEST_F(Generate, TheSamePromptIsComputedOnce) {
  run(length(3));
  EXPECT_EQ(run(length(3)).n_computed, 1);
}

TEST_F(Generate, EndsWhenTheContextIsFull) {
  GenerateOptions o = length(-1);
  const Generated g = run(o, 30);
  EXPECT_EQ(g.stop, Stop::kContext);
  EXPECT_EQ(g.tokens.size(), 10u);
  EXPECT_EQ(run(o, 40).tokens.size(), 0u);
  EXPECT_THROW(run(o, 41), Error);
}

TEST_F(Generate, EndsBeforeAStopString) {
  const std::string whole = run(length(20)).text;
  ASSERT_GE(whole.size(), 6u);
  // The stop string begins in the middle of the text, so that it cuts tokens.
  const std::string stop = whole.substr(whole.size() / 2, 3);
  GenerateOptions o = length(20);
  o.stops = {"never in the text", stop};
  const Generated g = run(o);
  EXPECT_EQ(g.stop, Stop::kString);
  EXPECT_EQ(g.text, whole.substr(0, whole.find(stop)));
  EXPECT_EQ(g.text, shown_);
}

TEST_F(Generate, EndsAtTheEndToken) {
  const Token eos = tiny_.engine->tokenizer().eos();
  const auto prompt = random_tokens(small_model(), 5);
  SamplerOptions s;
  s.temperature = 0.0f;
  s.logit_bias = {{eos, 1e6f}};
  Sampler sampler(s);
  GenerateOptions o;
  o.most_tokens = 4;
  Generated g = generate(*tiny_.session, prompt, sampler, o, {});
  EXPECT_EQ(g.stop, Stop::kEnd);
  EXPECT_EQ(g.tokens, std::vector<Token>{eos});
  EXPECT_EQ(g.text, "");
  o.ignore_end = true;
  g = generate(*tiny_.session, prompt, sampler, o, {});
  EXPECT_EQ(g.stop, Stop::kLength);
  EXPECT_EQ(g.tokens.size(), 4u);
}

TEST_F(Generate, StopsWhenCancelled) {
  std::atomic<bool> cancel{true};
  GenerateOptions o = length(10);
  o.cancel = &cancel;
  EXPECT_EQ(run(o).stop, Stop::kCancelled);
  EXPECT_TRUE(run(o).tokens.empty());
  EXPECT_EQ(run(o).n_computed, 0);
  cancel = false;
  SamplerOptions s;
  s.temperature = 0.0f;
  Sampler sampler(s);
  const auto prompt = random_tokens(small_model(), 5);
  const Generated g =
      generate(*tiny_.session, prompt, sampler, o, [&](std::string_view, int) { cancel = true; });
  EXPECT_EQ(g.stop, Stop::kCancelled);
  EXPECT_GE(g.tokens.size(), 1u);
  EXPECT_LT(g.tokens.size(), 10u);
}

}  // namespace
}  // namespace troika::engine
