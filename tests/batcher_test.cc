// Answers that are computed together are, to the last token, those that each gets alone, whoever
// comes and goes meanwhile and whatever beginnings are cached.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "engine/batching/batcher.h"
#include "engine/drafting/drafting.h"
#include "engine/generate.h"
#include "tests/support/prompt_case.h"
#include "tests/support/tiny_engine.h"

namespace troika {
namespace {

using engine::AnswerRequest;
using engine::Batcher;
using engine::Generated;
using engine::Session;
using test_support::TinyEngine;
using test_support::TinyModel;
using text::Token;

constexpr int kContext = 96;
constexpr int kWanted = 24;  // counts different answers of a model

std::vector<test_support::PromptCase> company_cases() {
  std::vector<test_support::PromptCase> cases = test_support::prompt_cases({"q8"});
  cases.push_back({"llama", "bf16"});
  cases.push_back({"llama", "int8"});
  cases.push_back({"llama", "same"});
  cases.push_back({"qwen3moe", "same"});
  return cases;
}

TinyModel model_of(const std::string& architecture) {
  TinyModel model = test_support::small_model(architecture);
  model.type = test_support::kQ8_0;
  model.n_layers = 1;
  model.context = kContext;
  return model;
}

prepare::Options options_of(const std::string& prefill) {
  prepare::Options options;
  options.memory.context = kContext;
  options.prompts.prefill = plan::prefill_from_name(prefill);
  options.prompts.chunk = 32;  // gives prompts several parts
  return options;
}

// A request, and the answer that it gets alone.
struct Wanted {
  std::vector<Token> prompt;
  engine::SamplerOptions sampler;
  int most_tokens = 0;
  bool is_drafted = false;
  Generated alone;
};

class Company : public testing::TestWithParam<test_support::PromptCase> {
 protected:
  Company() {
    const TinyModel model = model_of(GetParam().architecture);
    for (uint64_t i = 0; i < kWanted; ++i) wanted_.push_back(make(model, i));
  }

  uint64_t draw(uint64_t n) { return random_bits(GetParam().architecture.size(), ++n_drawn_) % n; }

  Wanted make(const TinyModel& model, uint64_t i) {
    Wanted wanted;
    // Some prompts share a beginning, and some are the beginning of another.
    const size_t n_prompt = 1 + draw(kContext - 12);
    wanted.prompt = test_support::random_tokens(model, n_prompt, i % 4);
    if (i % 3 == 0) {
      for (Token& token : wanted.prompt)
        token = token % 7 + 3;  // makes repetitions, so that drafts are right at times
    }
    wanted.sampler.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    wanted.sampler.seed = i;
    wanted.most_tokens = static_cast<int>(1 + draw(20));
    wanted.is_drafted = draw(2) == 0;
    Session session(*tiny_.engine);
    engine::Sampler sampler(wanted.sampler);
    wanted.alone = generate(session, wanted.prompt, sampler, options_for(wanted, nullptr), {});
    return wanted;
  }

  static engine::GenerateOptions options_for(const Wanted& wanted, draft::Drafter* drafter) {
    engine::GenerateOptions options;
    options.most_tokens = wanted.most_tokens;
    options.drafter = drafter;
    return options;
  }

  // A guest asks for an answer at some step, and may leave at another.
  struct Guest {
    const Wanted* wanted;
    uint64_t comes, leaves;
    int number = -1;
    std::unique_ptr<draft::Drafter> drafter = nullptr;
    std::unique_ptr<std::atomic<bool>> cancel = std::make_unique<std::atomic<bool>>(false);
  };

  std::vector<Guest> guests() {
    std::vector<Guest> guests;
    const uint64_t n = 1 + draw(5);
    for (uint64_t i = 0; i < n; ++i) {
      Guest guest{&wanted_[draw(kWanted)], draw(12), draw(7) == 0 ? draw(20) : UINT64_MAX};
      if (guest.wanted->is_drafted) {
        guest.drafter = make_drafter(*tiny_.engine, options_of(GetParam().prefill), {});
      }
      guests.push_back(std::move(guest));
    }
    return guests;
  }

  void run_schedule() {
    std::vector<Guest> all = guests();
    Batcher batcher(*tiny_.engine);
    size_t n_done = 0;
    for (uint64_t at = 0; n_done < all.size(); ++at) {
      ASSERT_LT(at, 2000u) << "an answer never ends";
      for (Guest& guest : all) {
        if (guest.comes == at) {
          AnswerRequest request;
          request.prompt = guest.wanted->prompt;
          request.sampler = guest.wanted->sampler;
          request.options = options_for(*guest.wanted, guest.drafter.get());
          request.options.cancel = guest.cancel.get();
          guest.number = batcher.submit(std::move(request));
        }
        if (guest.leaves == at) *guest.cancel = true;
      }
      batcher.step();
      for (Guest& guest : all) {
        if (guest.number < 0 || !batcher.is_done(guest.number)) continue;
        check(guest, batcher.take(guest.number));
        guest.number = -1;
        guest.comes = UINT64_MAX;
        ++n_done;
      }
      if (HasFailure()) return;
    }
    most_together_ = std::max(most_together_, batcher.statistics().most_together);
  }

  void check(const Guest& guest, const Generated& got) {
    const Generated& alone = guest.wanted->alone;
    n_reused_ += got.n_prompt - got.n_computed;
    if (got.stop != engine::Stop::kCancelled) {
      EXPECT_EQ(got.tokens, alone.tokens);
      EXPECT_EQ(got.text, alone.text);
      EXPECT_EQ(got.stop, alone.stop);
      return;
    }
    ASSERT_LE(got.tokens.size(), alone.tokens.size());
    EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), alone.tokens.begin()));
  }

  TinyEngine tiny_{model_of(GetParam().architecture), options_of(GetParam().prefill)};
  std::vector<Wanted> wanted_;
  uint64_t n_drawn_ = 0;
  int64_t n_reused_ = 0;
  int most_together_ = 0;
};

TEST_P(Company, AnAnswerIsTheSameAsAlone) {
  constexpr int kSchedules = 600;
  for (int i = 0; i < kSchedules && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    run_schedule();
  }
  EXPECT_GT(n_reused_, 0);
  EXPECT_GE(most_together_, 3);
}

INSTANTIATE_TEST_SUITE_P(All, Company, testing::ValuesIn(company_cases()), test_support::case_name);

class BatcherTest : public testing::Test {
 protected:
  std::vector<Token> tokens(size_t n) { return test_support::random_tokens(model_of("llama"), n); }
  AnswerRequest request(std::vector<Token> prompt, int most_tokens) {
    AnswerRequest request;
    request.prompt = std::move(prompt);
    request.sampler.temperature = 0.0f;
    request.options.most_tokens = most_tokens;
    request.options.ignore_end = true;
    return request;
  }
  TinyEngine tiny_{model_of("llama"), options_of("bf16")};
};

TEST_F(BatcherTest, APromptOfSeveralAnswersIsReadOnce) {
  Batcher batcher(*tiny_.engine);
  std::vector<int> numbers;
  numbers.reserve(4);
  for (int i = 0; i < 4; ++i) numbers.push_back(batcher.submit(request(tokens(60), 5)));
  while (batcher.step()) {
  }
  EXPECT_EQ(batcher.take(numbers[0]).n_computed, 60);
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(batcher.take(numbers[static_cast<size_t>(i)]).n_computed, 0);
  }
  EXPECT_EQ(batcher.statistics().n_prompt_rows, 60);
  EXPECT_EQ(batcher.statistics().n_steps, 4);  // the prompt gives the first tokens, without a step
  EXPECT_EQ(batcher.statistics().most_together, 4);
}

TEST_F(BatcherTest, AnswersOfDifferentOwnersShareNoPrompt) {
  Batcher batcher(*tiny_.engine);
  std::vector<int> numbers;
  for (const cache::Owner owner : {1, 2, 1, 0}) {
    AnswerRequest asked = request(tokens(60), 5);
    asked.owner = owner;
    numbers.push_back(batcher.submit(std::move(asked)));
  }
  while (batcher.step()) {
  }
  std::vector<engine::Generated> answers;
  for (const int number : numbers) answers.push_back(batcher.take(number));
  EXPECT_EQ(answers[0].n_computed, 60);
  EXPECT_EQ(answers[1].n_computed, 60);
  EXPECT_EQ(answers[2].n_computed, 0);
  EXPECT_EQ(answers[3].n_computed, 60);
  for (const engine::Generated& answer : answers) EXPECT_EQ(answer.tokens, answers[0].tokens);
}

// Each answer goes on by itself from what they share, also where one of them ends before the
// others.
TEST_F(BatcherTest, AnswersToOnePromptAreThoseThatTheirSeedsGiveAlone) {
  constexpr int kAnswers = 5;
  const auto of_seed = [&](int i) {
    AnswerRequest asked = request(tokens(45), 4 + 5 * i);
    asked.sampler.temperature = 1.0f;
    asked.sampler.seed = static_cast<uint64_t>(i);
    return asked;
  };
  Batcher batcher(*tiny_.engine);
  for (int i = 0; i < kAnswers; ++i) batcher.submit(of_seed(i));
  while (batcher.step()) {
  }
  for (int i = 0; i < kAnswers; ++i) {
    const AnswerRequest asked = of_seed(i);
    TinyEngine other{model_of("llama"), options_of("bf16")};
    Session session(*other.engine);
    engine::Sampler sampler(asked.sampler);
    EXPECT_EQ(batcher.take(i).tokens,
              generate(session, asked.prompt, sampler, asked.options, {}).tokens)
        << i;
  }
}

TEST_F(BatcherTest, WhatIsWrongWithAnAnswerEndsThisOneAlone) {
  Batcher batcher(*tiny_.engine);
  const int empty = batcher.submit(request({}, 5));
  const int too_long = batcher.submit(request(tokens(kContext + 1), 5));
  const int no_token = batcher.submit(request({1, 1 << 20}, 5));
  const int good = batcher.submit(request(tokens(20), 5));
  while (batcher.step()) {
  }
  EXPECT_THROW(batcher.take(empty), Error);
  EXPECT_THROW(batcher.take(too_long), Error);
  EXPECT_THROW(batcher.take(no_token), Error);
  EXPECT_EQ(batcher.take(good).tokens.size(), 5u);
}

// An answer whose mask forbids every token fails in the middle of a pass that others share.
TEST_F(BatcherTest, AMaskThatForbidsEverythingEndsItsAnswerAlone) {
  struct Nothing : engine::LogitMask {
    void apply(std::span<const Token> history, std::span<float> logits) override {
      if (history.size() < 24) return;
      std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
    }
  } nothing;
  Batcher batcher(*tiny_.engine);
  AnswerRequest masked = request(tokens(20), 30);
  masked.mask = &nothing;
  const int bad = batcher.submit(std::move(masked));
  const int good = batcher.submit(request(tokens(20), 30));
  while (batcher.step()) {
  }
  EXPECT_THROW(batcher.take(bad), Error);
  const Generated g = batcher.take(good);
  Session session(*tiny_.engine);
  engine::Sampler sampler(request({}, 30).sampler);
  EXPECT_EQ(g.tokens, generate(session, tokens(20), sampler, request({}, 30).options, {}).tokens);
}

// An answer that is being written never waits for more than one part of a prompt.
TEST_F(BatcherTest, StepsAndPartsOfPromptsTakeTurns) {
  Batcher batcher(*tiny_.engine);
  batcher.submit(request(tokens(10), 40));
  while (batcher.statistics().n_steps == 0) batcher.step();
  for (int i = 0; i < 3; ++i) {
    std::vector<Token> prompt = tokens(70);
    prompt[0] = 5 + i;
    batcher.submit(request(prompt, 4));
  }
  int64_t n_steps = batcher.statistics().n_steps, n_parts = batcher.statistics().n_prompt_parts;
  while (!batcher.is_done(0)) {
    batcher.step();
    const engine::BatcherStatistics& now = batcher.statistics();
    if (now.n_steps > n_steps) {
      EXPECT_LE(now.n_prompt_parts, n_parts + 1);
      n_steps = now.n_steps, n_parts = now.n_prompt_parts;
    }
  }
  EXPECT_GE(batcher.statistics().n_prompt_parts, 4);
}

// Where prompts and steps are of one class, a pass has a step and a part of a prompt. How long it
// takes says nothing about steps, and it is wider than they are.
TEST(BatcherOfOneClass, TimesOfStepsBesidePartsOfPromptsAreNotLearned) {
  TinyModel model = model_of("llama");
  model.context = 2048;
  prepare::Options options = options_of("same");
  options.memory.context = 2048;
  options.prompts.chunk = 256;
  TinyEngine tiny(model, options);
  const auto drafter = make_drafter(*tiny.engine, options, {});
  Batcher batcher(*tiny.engine);
  const auto submit = [&](size_t n_prompt, int most_tokens, draft::Drafter* with) {
    AnswerRequest request;
    request.prompt = test_support::random_tokens(model, n_prompt);
    request.prompt[0] = static_cast<Token>(3 + n_prompt % 5);
    request.sampler.temperature = 0.0f;
    request.options.most_tokens = most_tokens;
    request.options.ignore_end = true;
    request.options.drafter = with;
    return batcher.submit(std::move(request));
  };
  submit(20, 300, drafter.get());
  while (batcher.statistics().n_steps == 0) batcher.step();
  const int other = submit(1500, 2, nullptr);
  int64_t most_beside = 0;
  double slowest_ms = 0.0;
  while (!batcher.is_done(other)) {
    const engine::BatcherStatistics before = batcher.statistics();
    const double start_us = RealClock().now_us();
    batcher.step();
    slowest_ms = std::max(slowest_ms, (RealClock().now_us() - start_us) / 1e3);
    const engine::BatcherStatistics& now = batcher.statistics();
    if (now.n_steps == before.n_steps) continue;
    most_beside = std::max(most_beside, now.n_prompt_rows - before.n_prompt_rows);
  }
  for (const auto& [width, ms] : drafter->costs().measured()) {
    EXPECT_LE(width, tiny.engine->plan().most_step_rows()) << ms << " ms";
  }
  // Parts teach how long others may be, though steps go beside them: each may have twice the rows.
  constexpr double kQuick = 20.0;  // ms: so quick that all rows of a chunk are done in time
  if (slowest_ms < kQuick) {
    EXPECT_EQ(most_beside, 255);  // the step has a row of the pass, too
  }
  if (most_beside < draft::kMostPassRows) {
    GTEST_SKIP() << "this machine is too slow for parts of " << draft::kMostPassRows << " tokens";
  }
}

// A prompt waits for a turn only where a part of another is read. Prompts whose logits are looked
// at are never read beside steps.
TEST(BatcherOfOneClass, PromptsWaitForPartsThatAreReadAlone) {
  TinyModel model = model_of("llama");
  model.context = 2048;
  prepare::Options options = options_of("same");
  options.memory.context = 2048;
  TinyEngine tiny(model, options);
  engine::DraftOptions looking;
  looking.coverage = 50;
  const std::unique_ptr<draft::Drafter> drafters[] = {make_drafter(*tiny.engine, options, looking),
                                                      make_drafter(*tiny.engine, options, looking)};
  constexpr int kLong = 400, kShort = 300;
  int n_unread[] = {kLong, kShort};
  Batcher batcher(*tiny.engine);
  const auto submit = [&](int n_prompt, int most_tokens, int looked_at) {
    AnswerRequest request;
    request.prompt = test_support::random_tokens(model, static_cast<size_t>(n_prompt));
    request.prompt[0] = static_cast<Token>(5 + looked_at);
    request.options.most_tokens = most_tokens;
    request.options.ignore_end = true;
    if (looked_at >= 0) {
      request.options.drafter = drafters[looked_at].get();
      request.options.on_prompt = [&n_unread, looked_at](const engine::PromptProgress& progress) {
        n_unread[looked_at] = progress.n_prompt - progress.n_read;
      };
    }
    return batcher.submit(std::move(request));
  };
  submit(20, 1500, -1);
  while (batcher.statistics().n_steps == 0) batcher.step();
  submit(kLong, 2, 0);
  submit(kShort, 2, 1);
  int n_waited[] = {0, 0}, n_turns = 0;
  while (n_unread[0] > 0 && n_unread[1] > 0) {
    const int before[] = {n_unread[0], n_unread[1]};
    const int64_t n_parts = batcher.statistics().n_prompt_parts;
    ASSERT_TRUE(batcher.step());
    if (batcher.statistics().n_prompt_parts == n_parts) continue;
    const int read = n_unread[0] < before[0] ? 0 : 1, other = 1 - read;
    const auto key = [&](int i) { return before[i] - tiny.engine->plan().chunk() * n_waited[i]; };
    EXPECT_LE(key(read), key(other)) << "at turn " << n_turns;
    n_waited[read] = 0;
    ++n_waited[other];
    ++n_turns;
  }
  EXPECT_GT(n_turns, 5);
}

TEST_F(BatcherTest, NoMoreBeginThanHaveRoomToEnd) {
  Batcher batcher(*tiny_.engine);
  for (int i = 0; i < 100; ++i) {
    std::vector<Token> prompt = tokens(30);
    prompt[0] = 3 + i;
    batcher.submit(request(prompt, 66));
  }
  while (batcher.step()) {
    EXPECT_LE(tiny_.engine->passes().kv.n_limit(), tiny_.engine->passes().kv.shape().most_slots);
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(batcher.take(i).tokens.size(), 66u) << i;
  EXPECT_GT(batcher.statistics().most_together, 30);
  EXPECT_LE(batcher.statistics().most_together, 64);
}

// Answers of one token end in the step in which they begin. Whoever takes them at once gives their
// room to those in the queue, too.
TEST_F(BatcherTest, WhoIsTakenMakesRoomForTheQueue) {
  constexpr int kAnswers = 100;
  Batcher batcher(*tiny_.engine);
  for (int i = 0; i < kAnswers; ++i) {
    std::vector<Token> prompt = tokens(90);
    prompt[0] = 3 + i;
    batcher.submit(request(prompt, 1));
  }
  int n_taken = 0;
  for (int step = 0; step < 100 * kAnswers && n_taken < kAnswers; ++step) {
    batcher.step();
    for (; n_taken < kAnswers && batcher.is_done(n_taken); ++n_taken) {
      EXPECT_EQ(batcher.take(n_taken).tokens.size(), 1u);
    }
  }
  EXPECT_EQ(n_taken, kAnswers);
}

// An answer that pauses is left out of passes, stays the same, and can still be cancelled; and
// nobody waits for ever behind it in the queue.
TEST(Pauses, LeaveTheAnswerAsItWouldBe) {
  TinyEngine tiny(model_of("llama"), options_of("same"));
  const std::vector<Token> prompt = test_support::random_tokens(model_of("llama"), 9, 1);
  std::atomic<bool> pause = false, cancel = false;
  const auto request = [&](bool pauses, bool cancels) {
    AnswerRequest wanted;
    wanted.prompt = prompt;
    wanted.sampler.seed = 5;
    wanted.options.most_tokens = 20;
    wanted.options.ignore_end = true;
    if (pauses) wanted.options.pause = &pause;
    if (cancels) wanted.options.cancel = &cancel;
    return wanted;
  };
  Batcher batcher(*tiny.engine);
  const int paused = batcher.submit(request(true, false));
  while (batcher.statistics().n_steps < 3) ASSERT_TRUE(batcher.step());
  pause = true;
  const int other = batcher.submit(request(false, false));
  const int dropped = batcher.submit(request(true, true));
  while (batcher.step()) {
  }
  EXPECT_FALSE(batcher.is_done(paused));
  ASSERT_TRUE(batcher.is_done(other));
  const Generated whole = batcher.take(other);
  EXPECT_EQ(whole.tokens.size(), 20u);
  EXPECT_FALSE(batcher.is_done(dropped));
  cancel = true;
  EXPECT_FALSE(batcher.step());
  ASSERT_TRUE(batcher.is_done(dropped));
  EXPECT_EQ(batcher.take(dropped).stop, engine::Stop::kCancelled);
  pause = false;
  while (batcher.step()) {
  }
  ASSERT_TRUE(batcher.is_done(paused));
  EXPECT_EQ(batcher.take(paused).tokens, whole.tokens);
}

// An answer is cancelled while the first tokens of others are taken. Its own logits are there by
// then, and it must take no step any more.
TEST(Pauses, WhoIsCancelledBeforeTheFirstTokenTakesNoStep) {
  TinyEngine tiny(model_of("llama"), options_of("same"));
  std::atomic<bool> pause = true, cancel = false;
  const auto request = [&](int seed) {
    AnswerRequest wanted;
    wanted.prompt = test_support::random_tokens(model_of("llama"), 9, seed);
    wanted.options.most_tokens = 5;
    wanted.options.ignore_end = true;
    wanted.options.pause = &pause;
    return wanted;
  };
  Batcher batcher(*tiny.engine);
  AnswerRequest first = request(1), second = request(2);
  first.options.on_token = [&](Token, bool) { cancel = true; };
  second.options.cancel = &cancel;
  const int kept = batcher.submit(std::move(first));
  const int dropped = batcher.submit(std::move(second));
  while (batcher.step()) {
  }
  pause = false;
  while (batcher.step()) {
  }
  EXPECT_EQ(batcher.take(kept).tokens.size(), 5u);
  const Generated nothing = batcher.take(dropped);
  EXPECT_EQ(nothing.stop, engine::Stop::kCancelled);
  EXPECT_TRUE(nothing.tokens.empty());
}

// A cancelled answer that waits for a place is dropped from the queue.
TEST(Pauses, WhoWaitsInTheQueueCanBeCancelled) {
  TinyEngine tiny(model_of("llama"), options_of("same"));
  std::atomic<bool> cancel = true;
  AnswerRequest wanted;
  wanted.prompt = test_support::random_tokens(model_of("llama"), 9, 1);
  wanted.options.cancel = &cancel;
  Batcher batcher(*tiny.engine);
  const int dropped = batcher.submit(std::move(wanted));
  EXPECT_FALSE(batcher.step());
  ASSERT_TRUE(batcher.is_done(dropped));
  const Generated nothing = batcher.take(dropped);
  EXPECT_EQ(nothing.stop, engine::Stop::kCancelled);
  EXPECT_EQ(nothing.n_prompt, 0);
}

}  // namespace
}  // namespace troika
