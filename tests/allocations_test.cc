// Steps allocate nothing: all memory they need is taken before them, and pages of the cache are
// taken between passes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "engine/batching/batcher.h"
#include "engine/drafting/drafting.h"
#include "engine/scoring/logprobs.h"
#include "prepare/streaming/expert_stream.h"
#include "prepare/streaming/neurons/neuron_stream.h"
#include "prepare/streaming/weight_stream.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_engine.h"

namespace troika {
namespace {

using engine::Session;
using test_support::TinyEngine;
using test_support::TinyModel;
using text::Token;

constexpr int kMostPositions = 512;
constexpr int kSteps = 100;

TinyModel small_model() {
  TinyModel model = test_support::small_model();
  model.context = kMostPositions;
  return model;
}

prepare::Options options() {
  prepare::Options options;
  options.memory.context = kMostPositions;
  options.lanes.n_threads = 2;
  return options;
}

class Allocations : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::AllocationCounter::is_on()) GTEST_SKIP() << "a sanitizer has the allocator";
    const std::lock_guard<TurnMutex> lock(tiny_.engine->passes().mutex);
    take_pages();
  }
  // Takes all pages that steps may want. REQUIRES: the pass mutex is held.
  void take_pages() {
    cache::KvCache& kv = tiny_.engine->passes().kv;
    const cache::SequenceId sequence = kv.open();
    cache::Batch batch;
    batch.add_chain(std::vector<Token>(4 * kMostPositions), 0, sequence);
    kv.reserve_for(batch);
    kv.close(sequence);
  }
  // Returns a text that repeats itself, so that drafts are made and some are right.
  std::vector<Token> prompt() const {
    std::vector<Token> tokens;
    for (int i = 0; i < 60; ++i) tokens.push_back(3 + i % 11);
    return tokens;
  }
  static engine::SamplerOptions sampling(float temperature) {
    engine::SamplerOptions options;
    options.temperature = temperature;
    options.seed = 7;
    return options;
  }

  TinyEngine tiny_{small_model(), options()};
};

TEST_F(Allocations, PlainSteps) {
  for (const float temperature : {0.0f, 1.0f}) {
    Session session(*tiny_.engine);
    engine::Sampler sampler(sampling(temperature));
    session.prefill(prompt());
    for (int i = 0; i < 3; ++i) session.next(sampler);
    const test::AllocationCounter counter;
    for (int i = 0; i < kSteps; ++i) session.next(sampler);
    EXPECT_EQ(counter.n_allocations(), 0) << "temperature " << temperature;
  }
}

TEST_F(Allocations, PenalisedSteps) {
  for (const int window : {8, -1}) {
    engine::SamplerOptions options = sampling(1.0f);
    options.repetition_penalty = 1.2f;
    options.penalty_window = window;
    Session session(*tiny_.engine);
    engine::Sampler sampler(options);
    session.prefill(prompt());
    for (int i = 0; i < 3; ++i) session.next(sampler);
    const test::AllocationCounter counter;
    for (int i = 0; i < kSteps; ++i) session.next(sampler);
    EXPECT_EQ(counter.n_allocations(), 0) << "window " << window;
  }
}

TEST_F(Allocations, StepsWhoseLikelihoodsAreAsked) {
  Session session(*tiny_.engine);
  engine::LogprobRecorder recorder(prompt().size(), /*n_top=*/0, nullptr);
  engine::Sampler sampler(sampling(1.0f), &recorder);
  session.prefill(prompt());
  const auto step = [&] { recorder.take(session.next(sampler)); };
  for (int i = 0; i < 3; ++i) step();
  const test::AllocationCounter counter;
  for (int i = 0; i < kSteps; ++i) step();
  EXPECT_EQ(counter.n_allocations(), 0);
}

TEST_F(Allocations, DraftedSteps) {
  // What came true before lets every kind guess.
  auto earlier = std::make_shared<draft::Texts>();
  {
    Session session(*tiny_.engine);
    engine::Sampler sampler(sampling(0.0f));
    session.prefill(prompt());
    for (int i = 0; i < kSteps; ++i) session.next(sampler);
    earlier->push_back(session.history());
  }
  for (const char* const kind : {"context", "lookup", "calibrated", "history", "lookup+context"}) {
    Session session(*tiny_.engine);
    engine::Sampler sampler(sampling(0.0f));
    const auto drafter = make_drafter(*tiny_.engine, options(), {.kind = kind, .history = earlier});
    session.prefill(prompt());
    drafter->begin(session.history());
    const auto step = [&] { session.step(sampler, drafter.get(), 4); };
    for (int i = 0; i < 10; ++i) step();
    const test::AllocationCounter counter;
    for (int i = 0; i < kSteps; ++i) step();
    EXPECT_EQ(counter.n_allocations(), 0) << kind;
    EXPECT_GT(drafter->statistics().n_verified, 0) << kind;
  }
}

TEST_F(Allocations, StepsOfSeveralAnswers) {
  engine::Batcher batcher(*tiny_.engine);
  for (uint64_t i = 0; i < 4; ++i) {
    engine::AnswerRequest request;
    request.prompt = prompt();
    request.sampler = sampling(i % 2 == 0 ? 0.0f : 1.0f);
    request.options.most_tokens = 400;
    request.options.ignore_end = true;
    batcher.submit(std::move(request));
  }
  while (batcher.statistics().n_steps < 10) batcher.step();
  {  // takes the pages that answers would take between passes
    const std::lock_guard<TurnMutex> lock(tiny_.engine->passes().mutex);
    take_pages();
  }
  const test::AllocationCounter counter;
  for (int i = 0; i < kSteps; ++i) batcher.step();
  EXPECT_EQ(batcher.statistics().most_together, 4);
  EXPECT_EQ(counter.n_allocations(), 0);
}

// Each step reads blocks for which memory has no room.
prepare::Options options_of_steps() {
  prepare::Options limited = options();
  limited.prompts.prefill = plan::Prefill::kSame;
  limited.memory.held_bytes = 0;
  return limited;
}

TinyModel streamed_model() {
  TinyModel model = test_support::tiny_model("llama");
  model.n_layers = 6;
  model.ffn_width = 1024;
  model.context = kMostPositions;
  return model;
}

// Takes steps in an engine that has this share of the memory that it wants, and counts what they
// allocate. `read_bytes` says what has been read so far.
void expect_no_allocations(const TinyModel& model, prepare::Options limited, double share,
                           uint64_t (*read_bytes)(const prepare::LoadedWeights&)) {
  if (!test::AllocationCounter::is_on()) GTEST_SKIP() << "a sanitizer has the allocator";
  const TinyEngine whole(model, limited);
  const auto whole_bytes = static_cast<double>(whole.engine->ledger().total_bytes());
  limited.memory.limit_bytes = static_cast<size_t>(share * whole_bytes);
  const TinyEngine tiny(model, limited);
  const prepare::LoadedWeights& loaded = tiny.engine->loaded();
  ASSERT_NE(loaded.stream, nullptr);
  const std::vector<Token> text = test_support::random_tokens(model, kSteps + 60, 5);
  const std::span<const Token> tokens = text;
  tiny.session->prefill(tokens.first(30));
  const auto step = [&](Token token) {
    tiny.session->append(token);
    tiny.session->logits();
  };
  for (const Token token : tokens.subspan(30, 30)) step(token);
  const uint64_t n_read = read_bytes(loaded);
  const test::AllocationCounter counter;
  for (const Token token : tokens.subspan(60)) step(token);
  EXPECT_EQ(counter.n_allocations(), 0);
  EXPECT_GT(read_bytes(loaded), n_read);
}

TEST(StreamedAllocations, P10StepsThatReadWeightsAllocateNothing) {
  expect_no_allocations(
      streamed_model(), options_of_steps(), 0.75,
      [](const prepare::LoadedWeights& loaded) { return loaded.stream->counters().read_bytes; });
}

TEST(StreamedAllocations, P10StepsThatReadNeuronsAllocateNothing) {
  const test::TempFolder folder;
  setenv("XDG_CACHE_HOME", folder.file("cache").c_str(), 1);
  TinyModel model = streamed_model();
  model.activation = "relu";
  model.ffn_width = 2048;
  prepare::Options limited = options_of_steps();
  limited.ffn.form = plan::FfnForm::kByNeuron;
  expect_no_allocations(model, limited, 0.75, [](const prepare::LoadedWeights& loaded) {
    return loaded.stream->neurons()->counters().read_bytes;
  });
  unsetenv("XDG_CACHE_HOME");
}

TEST(StreamedAllocations, P10StepsThatReadExpertsAllocateNothing) {
  TinyModel model = test_support::tiny_model("qwen3moe");
  model.n_layers = 6;
  model.context = kMostPositions;
  prepare::Options limited = options_of_steps();
  limited.prompts.chunk = 32;  // its values take little
  expect_no_allocations(model, limited, 0.75, [](const prepare::LoadedWeights& loaded) {
    return loaded.experts->counters().read_bytes;
  });
}

}  // namespace
}  // namespace troika
