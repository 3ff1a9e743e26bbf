// A session gives the same bits however it is asked: for prompts in one go or in pieces, beginnings
// known from before, and histories cut and continued.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/cancels_behind_a_part.h"
#include "tests/support/logits.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using test_support::engine_logits;
using test_support::TinyModel;
using test_support::TinyModelFile;
using text::Token;
using Row = std::vector<float>;

TinyModel model() { return test_support::narrow_llama(2048); }

engine::Sampler greedy_sampler() {
  engine::SamplerOptions options;
  options.temperature = 0.0f;
  return engine::Sampler(options);
}

class SessionTest : public testing::Test {
 protected:
  // Returns options with rounded activations, keys and values in half precision and two threads.
  // Prompts of any length have the precision of steps, so that every division of a text gives the
  // same bits.
  static prepare::Options options(int context) {
    static const TinyModelFile file(model());
    prepare::Options options;
    options.model.file = file.path();
    options.lanes.n_threads = 2;
    options.memory.context = context;
    options.prompts.prefill = plan::Prefill::kSame;
    return options;
  }
  static std::vector<Token> tokens(size_t n, uint64_t seed = 7) {
    return test_support::random_tokens(model(), n, seed);
  }
  static Row row(Session& session) {
    const std::span<const float> logits = session.logits();
    return {logits.begin(), logits.end()};
  }
  static Row logits_after(const std::vector<Token>& prompt) {
    Engine engine(options(2048));
    Session session(engine);
    session.prefill(prompt);
    return row(session);
  }
};

// Prompts are computed in their own precision from 33 tokens on.
TEST_F(SessionTest, N3PiecesOfAPromptAreTheWholeInEveryPrecision) {
  const std::vector<Token> prompt = tokens(165);
  for (const char* prefill : {"f32", "bf16", "int8"}) {
    prepare::Options options = this->options(2048);
    options.prompts.prefill = plan::prefill_from_name(prefill);
    Engine engine(options);
    Session whole(engine);
    whole.prefill(prompt);
    for (const size_t length : {size_t{33}, size_t{55}, size_t{132}}) {
      Session session(engine);
      for (size_t end = length; end < prompt.size() + length; end += length) {
        session.prefill(std::span(prompt).first(std::min(end, prompt.size())));
      }
      EXPECT_EQ(row(session), row(whole)) << prefill << ", pieces of " << length;
    }
    options.lanes.n_threads = 1;
    Engine alone(options);
    Session session(alone);
    session.prefill(prompt);
    EXPECT_EQ(row(session), row(whole)) << prefill << ", one thread";
  }
}

// Strips are unpacked for each chunk, and packed copies were made at the start.
TEST_F(SessionTest, N3PackedCopiesChangeNoBit) {
  const std::vector<Token> prompt = tokens(165);
  prepare::Options options = this->options(2048);
  options.prompts.prefill = plan::Prefill::kInt8;
  std::vector<Row> rows;
  for (const size_t bytes : {size_t{0}, size_t{20'000}, size_t{1} << 30}) {
    options.memory.packed_bytes = bytes;
    Engine engine(options);
    EXPECT_EQ(engine.weights().packed_bytes() > 0, bytes > 0);
    EXPECT_LE(engine.weights().packed_bytes(), bytes);
    Session session(engine);
    session.prefill(prompt);
    rows.push_back(row(session));
    EXPECT_EQ(rows.back(), rows.front()) << bytes;
  }
}

TEST_F(SessionTest, N8_EquivalentShapesOfAProductGiveTheSameBits) {
  const std::vector<Token> prompt = tokens(165);
  for (const char* prefill : {"bf16", "int8"}) {
    prepare::Options options = this->options(2048);
    options.prompts.prefill = plan::prefill_from_name(prefill);
    Engine first(options);
    Session expected(first);
    expected.prefill(prompt);
    for (const char* arrangement : {"64 rows", "32 rows", "128 rows"}) {
      options.plan.exact = first.plan();
      for (const model::Weight& weight : first.blueprint().weights) {
        for (const int n : first.plan().prompt_shapes) {
          const plan::Shape shape = {plan::Phase::kPrompt, n};
          options.plan.exact->arrangements.push_back(
              {0, weight.n_rows, weight.row_length, shape, arrangement});
        }
      }
      Engine engine(options);
      Session session(engine);
      session.prefill(prompt);
      EXPECT_EQ(row(session), row(expected)) << prefill << ", " << arrangement;
    }
    for (auto& choice : options.plan.exact->arrangements) choice.arrangement = "7 rows";
    try {
      Engine engine(options);
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("'7 rows'"), std::string::npos) << error.what();
    }
  }
}

TEST_F(SessionTest, PiecesOfAPromptAreTheWhole) {
  const std::vector<Token> prompt = tokens(150);
  Engine engine(options(2048));
  const Row whole = logits_after(prompt);
  for (const size_t length : {size_t{1}, size_t{3}, size_t{32}, size_t{33}, size_t{127}}) {
    Session session(engine);
    int n_computed = 0;
    for (size_t end = length; end < prompt.size() + length; end += length) {
      const size_t n = std::min(end, prompt.size());
      n_computed += session.prefill(std::span(prompt).first(n));
    }
    EXPECT_EQ(row(session), whole) << "pieces of " << length;
    EXPECT_EQ(n_computed, static_cast<int>(prompt.size())) << "pieces of " << length;
  }
}

TEST_F(SessionTest, EvaluateGivesTheRowsOfSuccessivePrefills) {
  const std::vector<Token> prompt = tokens(70);
  Engine engine(options(2048));
  Session all(engine), one_by_one(engine);
  std::vector<Row> rows;
  all.evaluate(prompt, [&](int index, std::span<const float> logits) {
    EXPECT_EQ(index, static_cast<int>(rows.size()));
    rows.emplace_back(logits.begin(), logits.end());
  });
  ASSERT_EQ(rows.size(), prompt.size());
  for (size_t n = 1; n <= prompt.size(); ++n) {
    one_by_one.prefill(std::span(prompt).first(n));
    ASSERT_EQ(row(one_by_one), rows[n - 1]) << n;
  }
  EXPECT_EQ(row(all), rows.back());
}

TEST_F(SessionTest, APromptLongerThanTheLargestShape) {
  const std::vector<Token> prompt = tokens(1300);
  Engine engine(options(2048));
  ASSERT_LT(engine.plan().chunk(), 1300);
  Session whole(engine), pieces(engine);
  EXPECT_EQ(whole.prefill(prompt), 1300);
  for (size_t n = 77; n < prompt.size(); n += 77) pieces.prefill(std::span(prompt).first(n));
  pieces.prefill(prompt);
  EXPECT_EQ(row(whole), row(pieces));
}

TEST_F(SessionTest, ASharedBeginningIsNotComputedAgain) {
  const std::vector<Token> first = tokens(100, 1);
  std::vector<Token> second = first;
  second.resize(60);
  const std::vector<Token> more = tokens(50, 2);
  second.insert(second.end(), more.begin() + 1, more.end());
  Engine engine(options(2048));
  Session session(engine);
  EXPECT_EQ(session.prefill(first), 100);
  EXPECT_EQ(session.prefill(second), 49);
  EXPECT_EQ(session.history(), second);
  EXPECT_EQ(row(session), logits_after(second));
  // The session goes back to the first text and computes again what was overwritten.
  EXPECT_EQ(session.prefill(first), 40);
  EXPECT_EQ(row(session), logits_after(first));
  // The same prompt again computes only its last token, for the logits.
  EXPECT_EQ(session.prefill(first), 1);
  EXPECT_EQ(row(session), logits_after(first));
  // The prompt is a beginning of the history.
  const std::vector<Token> part(first.begin(), first.begin() + 30);
  EXPECT_EQ(session.prefill(part), 1);
  EXPECT_EQ(row(session), logits_after(part));
}

TEST_F(SessionTest, GeneratedTokensAreABeginningToo) {
  Engine engine(options(2048));
  Session session(engine);
  engine::Sampler greedy = greedy_sampler();
  session.prefill(tokens(20));
  for (int i = 0; i < 10; ++i) session.next(greedy);
  std::vector<Token> prompt = session.history();
  ASSERT_EQ(prompt.size(), 30u);
  const std::vector<Token> more = tokens(6, 3);
  prompt.insert(prompt.end(), more.begin() + 1, more.end());
  // The last generated token was sampled and is not computed yet.
  EXPECT_EQ(session.prefill(prompt), 6);
  EXPECT_EQ(row(session), logits_after(prompt));
}

TEST_F(SessionTest, ATruncatedHistoryGoesOn) {
  const std::vector<Token> prompt = tokens(90);
  Engine engine(options(2048));
  Session session(engine);
  engine::Sampler greedy = greedy_sampler();
  session.prefill(prompt);
  for (int i = 0; i < 5; ++i) session.next(greedy);
  for (const int length : {92, 50, 31, 0}) {
    session.truncate(length);
    ASSERT_EQ(session.history().size(), static_cast<size_t>(length));
    std::vector<Token> rest = tokens(20, 100 + static_cast<uint64_t>(length));
    std::vector<Token> all = session.history();
    all.insert(all.end(), rest.begin(), rest.end());
    session.evaluate(rest, {});
    EXPECT_EQ(session.history(), all);
    EXPECT_EQ(row(session), logits_after(all)) << length;
  }
}

TEST_F(SessionTest, TheContextCanBeFilledToItsLastToken) {
  for (const int context : {1, 2, 31, 64, 100}) {
    SCOPED_TRACE(context);
    Engine engine(options(context));
    Session session(engine);
    const std::vector<Token> prompt = tokens(static_cast<size_t>(context));
    session.prefill(prompt);
    EXPECT_EQ(row(session), logits_after(prompt));
    engine::Sampler greedy = greedy_sampler();
    EXPECT_THROW(session.next(greedy), Error);
    EXPECT_THROW(session.evaluate(tokens(1), {}), Error);
    EXPECT_THROW(session.prefill(tokens(static_cast<size_t>(context) + 1)), Error);
    // A refusal changes nothing.
    EXPECT_EQ(session.history(), prompt);
    EXPECT_EQ(row(session), logits_after(prompt));
    if (context == 1) continue;
    session.truncate(context - 1);
    session.evaluate(std::span(prompt).last(1), {});
    EXPECT_EQ(row(session), logits_after(prompt));
  }
}

TEST_F(SessionTest, GenerationFillsTheContextExactly) {
  Engine engine(options(40));
  Session session(engine);
  engine::Sampler greedy = greedy_sampler();
  session.prefill(tokens(30));
  for (int i = 0; i < 10; ++i) session.next(greedy);
  EXPECT_EQ(session.history().size(), 40u);
  EXPECT_THROW(session.next(greedy), Error);
}

TEST_F(SessionTest, AnEmptyPromptIsRefused) {
  Engine engine(options(64));
  Session session(engine);
  EXPECT_THROW(session.prefill({}), Error);
}

TEST_F(SessionTest, ACancelledPromptLeavesASessionThatGoesOn) {
  const std::vector<Token> prompt = tokens(1300);
  Engine engine(options(2048));
  Session session(engine);
  test_support::CancelsBehindAPart observer;
  EXPECT_LT(session.prefill(prompt, &observer.cancel, &observer), 1300);
  const auto n_known = static_cast<int>(session.history().size());
  EXPECT_GT(n_known, 0);
  EXPECT_EQ(session.prefill(prompt), 1300 - n_known);
  EXPECT_EQ(row(session), logits_after(prompt));
}

TEST_F(SessionTest, SessionsOfOneEngineDoNotDisturbEachOther) {
  Engine engine(options(2048));
  Session first(engine), second(engine);
  const std::vector<Token> a = tokens(60, 1), b = tokens(45, 2);
  for (size_t n = 15; n <= 60; n += 15) {
    first.prefill(std::span(a).first(n));
    second.prefill(std::span(b).first(std::min<size_t>(n, 45)));
  }
  EXPECT_EQ(row(first), logits_after(a));
  EXPECT_EQ(row(second), logits_after(b));
}

}  // namespace
}  // namespace troika
