#include "engine/prompt_logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/system.h"
#include "base/trace.h"
#include "engine/batching/batcher.h"
#include "engine/drafting/drafting.h"
#include "engine/generate.h"
#include "tests/support/tiny_engine.h"

namespace troika::engine {
namespace {

using test_support::copy_of;
using test_support::random_tokens;
using test_support::small_model;
using test_support::TinyEngine;
using Logits = std::vector<float>;

class Collector : public PromptObserver {
 public:
  explicit Collector(int coverage) : wanted_(coverage) {}
  bool wants(int position) const override { return wanted_.wants(position); }
  void see(int position, std::span<const float> logits) override {
    EXPECT_TRUE(seen.emplace(position, copy_of(logits)).second) << position;
  }
  void took(double ms) override { total_ms += ms; }

  std::map<int, Logits> seen;
  double total_ms = 0.0;

 private:
  PromptLogits wanted_;
};

TEST(PromptLogits, CoversTheShareEvenly) {
  for (const int coverage : {0, 1, 10, 25, 50, 99, 100}) {
    const PromptLogits logits(coverage);
    int n = 0;
    for (int position = 0; position < 1000; ++position) {
      n += logits.wants(position);
      EXPECT_LE(std::abs(n * 100 - (position + 1) * coverage), 100);
    }
    EXPECT_EQ(n, coverage * 10);
  }
}

// Returns options that compute prompts as steps, so that everything is equal to the bit.
prepare::Options in_chunks() {
  prepare::Options options;
  options.prompts.prefill = plan::Prefill::kSame;
  options.prompts.chunk = 32;
  options.memory.context = 128;
  return options;
}

TEST(PromptLogits, D2_AreThoseOfEachBeginning) {
  const auto model = small_model();
  TinyEngine tiny(model, in_chunks());
  const auto prompt = random_tokens(model, 80);
  for (const int coverage : {100, 30}) {
    Session session(*tiny.engine);
    Collector collector(coverage);
    EXPECT_EQ(session.prefill(prompt, nullptr, &collector), 80);
    EXPECT_EQ(collector.seen.size(), static_cast<size_t>(80 * coverage / 100));
    EXPECT_GT(collector.total_ms, 0.0);
    Session alone(*tiny.engine);
    for (const auto& [position, logits] : collector.seen) {
      alone.prefill(std::span(prompt).first(static_cast<size_t>(position) + 1));
      EXPECT_EQ(copy_of(alone.logits()), logits) << position;
    }
    alone.prefill(prompt);
    EXPECT_EQ(copy_of(session.logits()), copy_of(alone.logits()));
  }
}

// A coverage costs the head of its positions in each chunk. The answer is the same with every
// coverage.
TEST(PromptLogits, D2_ACoverageCostsTheHeadOfItsPositions) {
  const auto model = small_model();
  const auto prompt = random_tokens(model, 80);
  prepare::Options options = in_chunks();
  TinyEngine tiny(model, options);
  options.model.file = tiny.engine->file().path();
  SamplerOptions greedy;
  greedy.temperature = 0.0f;
  Sampler sampler(greedy);
  std::vector<cache::Token> plain;
  for (const int coverage : {0, 25, 50, 100}) {
    DraftOptions draft;
    draft.kind = "calibrated";
    draft.coverage = coverage;
    draft.fixed_width = 8;
    const auto drafter = make_drafter(*tiny.engine, options, draft);
    EXPECT_EQ(drafter->coverage(), coverage);
    Trace trace({"host"});
    Session session(*tiny.engine);
    session.watch({.trace = &trace});
    PromptLogits logits(coverage);
    session.prefill(prompt, nullptr, coverage > 0 ? &logits : nullptr);
    EXPECT_EQ(logits.likely().size(), static_cast<size_t>(80 * coverage / 100));
    int n_heads = 0;
    for (const TraceEvent& event : trace.events()) n_heads += std::string(event.name) == "head";
    // The head of the last row runs in any case.
    EXPECT_EQ(n_heads, coverage > 0 ? 3 + 1 : 1);
    GenerateOptions how;
    how.most_tokens = 20;
    how.ignore_end = true;
    how.drafter = drafter.get();
    Session answering(*tiny.engine);
    const Generated g = generate(answering, prompt, sampler, how, {});
    if (coverage == 0) plain = g.tokens;
    EXPECT_EQ(g.tokens, plain);
    EXPECT_EQ(g.calibration_seconds > 0.0, coverage > 0);
  }
}

// Answers a prompt with one token of it again and again, with drafts that the prompt's logits
// calibrate and nothing else. Of three tokens the first comes from the prompt's pass, and the last
// from a step that has no room for a guess. So nothing but the prompt can teach the only guess.
class CalibratedAnswers {
 public:
  static constexpr int kTokens = 3;

  CalibratedAnswers() : prompt_(random_tokens(small_model(), 24)) {
    options_ = in_chunks();
    options_.model.file = tiny_.engine->file().path();
  }
  std::unique_ptr<draft::Drafter> drafter(int coverage) {
    DraftOptions draft;
    draft.kind = "calibrated";
    draft.coverage = coverage;
    draft.fixed_width = 8;
    return make_drafter(*tiny_.engine, options_, draft);
  }
  Generated alone(draft::Drafter* drafter) {
    Session session(*tiny_.engine);
    Sampler sampler(sampling());
    return generate(session, prompt_, sampler, how(drafter), {});
  }
  // Returns the answers of a batch, of which each has its own drafter.
  std::vector<Generated> together(const std::vector<draft::Drafter*>& drafters) {
    Batcher batcher(*tiny_.engine);
    std::vector<int> numbers;
    for (draft::Drafter* const drafter : drafters) {
      AnswerRequest request;
      request.prompt = prompt_;
      request.sampler = sampling();
      request.options = how(drafter);
      numbers.push_back(batcher.submit(std::move(request)));
    }
    while (batcher.step()) {
    }
    std::vector<Generated> answers;
    for (const int number : numbers) answers.push_back(batcher.take(number));
    return answers;
  }

 private:
  SamplerOptions sampling() const {
    SamplerOptions options;
    options.temperature = 0.0f;
    options.logit_bias = {{prompt_[12], 1000.0f}};
    return options;
  }
  static GenerateOptions how(draft::Drafter* drafter) {
    GenerateOptions options;
    options.most_tokens = kTokens;
    options.ignore_end = true;
    options.drafter = drafter;
    return options;
  }

  TinyEngine tiny_{small_model(), in_chunks()};
  std::vector<cache::Token> prompt_;
  prepare::Options options_;
};

TEST(PromptLogits, D2_ARunCalibratesItsDrafts) {
  CalibratedAnswers blind, calibrated;
  const auto without = blind.drafter(0), with = calibrated.drafter(100);
  const Generated plain = blind.alone(without.get());
  EXPECT_EQ(plain.tokens.size(), static_cast<size_t>(CalibratedAnswers::kTokens));
  EXPECT_EQ(calibrated.alone(with.get()).tokens, plain.tokens);
  EXPECT_EQ(without->statistics().n_verified, 0);
  EXPECT_GT(with->statistics().n_verified, 0);
}

// The second of two equal prompts takes over what the first one's passes said.
TEST(PromptLogits, D2_ABatchCalibratesTheDraftsOfEachAnswer) {
  const std::vector<cache::Token> plain = CalibratedAnswers().alone(nullptr).tokens;
  for (const int coverage : {0, 100}) {
    CalibratedAnswers answers;
    const auto first = answers.drafter(coverage), second = answers.drafter(coverage);
    for (const Generated& answer : answers.together({first.get(), second.get()})) {
      EXPECT_EQ(answer.tokens, plain) << coverage;
    }
    for (const auto* const drafter : {first.get(), second.get()}) {
      EXPECT_EQ(drafter->statistics().n_verified > 0, coverage > 0) << coverage;
    }
  }
}

TEST(PromptLogits, AreOfTheFreshTokensAlone) {
  const auto model = small_model();
  TinyEngine tiny(model, in_chunks());
  const auto prompt = random_tokens(model, 60);
  tiny.session->prefill(std::span(prompt).first(40));
  Collector collector(100);
  tiny.session->prefill(prompt, nullptr, &collector);
  EXPECT_EQ(collector.seen.size(), 20u);
  EXPECT_EQ(collector.seen.begin()->first, 40);
  // A collector that is no longer given gets nothing.
  tiny.session->prefill(std::span(prompt).first(50));
  EXPECT_EQ(collector.seen.size(), 20u);
}

TEST(PromptLogits, AreTheSameOnSeveralLanes) {
  const std::vector<int> cores = usable_core_numbers();
  if (cores.size() < 2) GTEST_SKIP() << "two lanes need two cores";
  const auto model = small_model();
  const auto prompt = random_tokens(model, 120);
  Collector one(100), two(100);
  TinyEngine alone(model, in_chunks());
  alone.session->prefill(prompt, nullptr, &one);
  prepare::Options options = in_chunks();
  options.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
  options.lanes.placements = {{"attention", 0, 1}};
  options.prompts.chunks_in_flight = 2;  // are fewer than the four chunks of the prompt
  options.model.file = alone.folder.file("tiny.gguf");
  Engine lanes(options);
  Session session(lanes);
  session.prefill(prompt, nullptr, &two);
  EXPECT_EQ(one.seen.size(), 120u);
  EXPECT_EQ(one.seen, two.seen);
  EXPECT_EQ(copy_of(alone.session->logits()), copy_of(session.logits()));
}

// Behind a beginning that is reused, chunks end where those of a whole prompt do not, and the short
// rest is a chunk more.
TEST(PromptLogits, AreTheSameOnSeveralLanesBehindAReusedBeginning) {
  const std::vector<int> cores = usable_core_numbers();
  if (cores.size() < 2) GTEST_SKIP() << "two lanes need two cores";
  const auto model = small_model();
  const auto before = random_tokens(model, 96);
  auto prompt = random_tokens(model, 110, 3);
  std::copy_n(before.begin(), 40, prompt.begin());
  prepare::Options options = in_chunks();
  options.prompts.prefill = plan::Prefill::kBf16;
  const auto collect = [&](Engine& engine) {
    Session session(engine);
    session.prefill(before);
    Collector collector(100);
    EXPECT_EQ(session.prefill(prompt, nullptr, &collector), 70);
    return collector.seen;
  };
  TinyEngine alone(model, options);
  options.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
  options.lanes.placements = {{"attention", 0, 1}};
  options.prompts.chunks_in_flight = 2;
  options.model.file = alone.folder.file("tiny.gguf");
  Engine lanes(options);
  const std::map<int, Logits> expected = collect(*alone.engine);
  EXPECT_EQ(expected.size(), 70u);
  EXPECT_EQ(collect(lanes), expected);
}

}  // namespace
}  // namespace troika::engine
