#include "engine/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>

#include "base/error.h"
#include "tests/support/cancels_behind_a_part.h"
#include "tests/support/tiny_engine.h"

namespace troika::engine {
namespace {

using test_support::copy_of;
using test_support::random_tokens;
using test_support::small_model;
using test_support::TinyEngine;
using Logits = std::vector<float>;

// Returns the logits behind `tokens`, from a session that has seen nothing else.
Logits fresh_logits(TinyEngine& tiny, const std::vector<Token>& tokens) {
  Session session(*tiny.engine);
  session.prefill(tokens);
  return copy_of(session.logits());
}

// Has the parents of these trees:
//      0 - 1 - 3
//       \   \- 4 - 5
//        2 - 6
//      7 - 8
const int kParents[] = {-1, 0, 0, 1, 1, 4, 2, -1, 7};

cache::Batch tree(int position) {
  cache::Batch batch;
  for (const int parent : kParents) {
    const int at = parent < 0 ? position : batch.rows[static_cast<size_t>(parent)].position + 1;
    batch.rows.push_back({static_cast<Token>(20 + 3 * batch.size()), at, 0, parent, true});
  }
  return batch;
}

std::vector<Token> branch(const cache::Batch& batch, std::vector<Token> past, int row) {
  std::vector<Token> own;
  for (int i = row; i >= 0; i = batch.rows[static_cast<size_t>(i)].parent) {
    own.push_back(batch.rows[static_cast<size_t>(i)].token);
  }
  past.insert(past.end(), own.rbegin(), own.rend());
  return past;
}

class Tree : public testing::TestWithParam<std::string> {};

// A tree of tokens in one pass gives the bits that each of its branches gives alone.
TEST_P(Tree, GivesTheLogitsOfEachBranchAlone) {
  for (const auto activations : {plan::Activations::kF32, plan::Activations::kQ8}) {
    auto model = small_model(GetParam());
    model.type = test_support::kQ8_0;
    prepare::Options options;
    options.activations = activations;
    options.lanes.n_threads = 2;
    TinyEngine tiny(model, options);
    const auto past = random_tokens(model, 11);
    tiny.session->prefill(past);
    const cache::Batch batch = tree(11);
    std::map<int, Logits> logits;
    tiny.session->run_batch(
        batch, [&](int row, std::span<const float> l) { logits[row] = copy_of(l); },
        [] { return std::vector<int>{}; });
    ASSERT_EQ(logits.size(), 9u);
    for (int row = 0; row < batch.size(); ++row) {
      EXPECT_EQ(logits[row], fresh_logits(tiny, branch(batch, past, row))) << row;
    }
    EXPECT_EQ(tiny.session->history(), past);
    EXPECT_EQ(copy_of(tiny.session->logits()), fresh_logits(tiny, past));
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Tree, testing::ValuesIn(test_support::tiny_architectures()),
                         [](const auto& info) { return info.param; });

TEST(Session, TheChosenPathOfATreeBecomesHistory) {
  TinyEngine tiny;
  const auto past = random_tokens(small_model(), 6);
  tiny.session->prefill(past);
  const cache::Batch batch = tree(6);
  tiny.session->run_batch(batch, {}, [] { return std::vector<int>{0, 1, 4}; });
  const auto expected = branch(batch, past, 4);
  EXPECT_EQ(tiny.session->history(), expected);
  EXPECT_EQ(copy_of(tiny.session->logits()), fresh_logits(tiny, expected));
  // The session goes on from there.
  Sampler sampler({.temperature = 0.0f});
  tiny.session->next(sampler);
  const auto longer = tiny.session->history();
  EXPECT_EQ(copy_of(tiny.session->logits()), fresh_logits(tiny, longer));
}

TEST(Session, ATreeMayFollowATokenThatIsNotComputedYet) {
  TinyEngine tiny;
  tiny.session->prefill(random_tokens(small_model(), 6));
  Sampler sampler({.temperature = 0.0f});
  tiny.session->next(sampler);
  const auto past = tiny.session->history();
  Logits root;
  const cache::Batch batch = tree(7);
  tiny.session->run_batch(
      batch,
      [&](int row, std::span<const float> l) {
        if (row == 0) root = copy_of(l);
      },
      [] { return std::vector<int>{}; });
  EXPECT_EQ(root, fresh_logits(tiny, branch(batch, past, 0)));
  EXPECT_EQ(tiny.session->history(), past);
}

// A callback that throws must not keep slots of the cache, so the whole context stays usable.
TEST(Session, AThrowingSinkLeavesTheSessionAsItWas) {
  prepare::Options options;
  options.memory.context = 16;
  TinyEngine tiny(small_model(), options);
  const auto tokens = random_tokens(small_model(), 16);
  tiny.session->prefill(std::span(tokens).first(4));
  for (int i = 0; i < 5; ++i) {
    EXPECT_THROW(
        tiny.session->evaluate(std::span(tokens).subspan(4, 8),
                               [](int, std::span<const float>) { throw std::runtime_error("x"); }),
        std::runtime_error);
    EXPECT_EQ(tiny.session->history().size(), 4u);
  }
  EXPECT_EQ(copy_of(tiny.session->logits()),
            fresh_logits(tiny, {tokens.begin(), tokens.begin() + 4}));
  tiny.session->evaluate(std::span(tokens).subspan(4), {});
  EXPECT_EQ(copy_of(tiny.session->logits()), fresh_logits(tiny, tokens));
}

TEST(Session, AThrowingChoiceLeavesTheSessionAsItWas) {
  prepare::Options options;
  options.memory.context = 16;
  TinyEngine tiny(small_model(), options);
  const auto past = random_tokens(small_model(), 4);
  tiny.session->prefill(past);
  for (int i = 0; i < 4; ++i) {
    EXPECT_THROW(tiny.session->run_batch(
                     tree(4), {}, []() -> std::vector<int> { throw std::runtime_error("x"); }),
                 std::runtime_error);
  }
  EXPECT_EQ(tiny.session->history(), past);
  tiny.session->evaluate(random_tokens(small_model(), 12), {});
}

TEST(Session, TruncateForgetsTheLogitsToo) {
  TinyEngine tiny;
  auto tokens = random_tokens(small_model(), 10);
  tiny.session->prefill(tokens);
  tiny.session->truncate(6);
  tokens.resize(6);
  EXPECT_EQ(copy_of(tiny.session->logits()), fresh_logits(tiny, tokens));
  EXPECT_EQ(tiny.session->history(), tokens);
}

TEST(Session, ACancelledPrefillGivesTheLogitsOfWhatWasComputed) {
  auto model = small_model();
  model.context = 2048;
  prepare::Options options;
  options.memory.context = 1024;
  options.prompts.prefill = plan::Prefill::kSame;  // computes the last token again, alone
  TinyEngine tiny(model, options);
  auto tokens = random_tokens(model, 600);
  const std::atomic<bool> is_cancelled{true};
  EXPECT_EQ(tiny.session->prefill(tokens, &is_cancelled), 0) << "it came before the first chunk";
  test_support::CancelsBehindAPart observer;
  EXPECT_EQ(tiny.session->prefill(tokens, &observer.cancel, &observer), 512);
  tokens.resize(512);
  EXPECT_EQ(tiny.session->history(), tokens);
  EXPECT_EQ(copy_of(tiny.session->logits()), fresh_logits(tiny, tokens));
}

// A text that only waits for its next prompt leaves its room to others.
TEST(Session, WhoRestsLeavesRoom) {
  TinyEngine tiny;
  const int context = tiny.session->context();
  Session first(*tiny.engine, Reuse::kAll), second(*tiny.engine, Reuse::kAll);
  {
    const std::lock_guard<TurnMutex> lock(tiny.engine->passes().mutex);
    tiny.engine->passes().kv.limit_slots(context);
  }
  const auto tokens = random_tokens(small_model(), context * 3 / 4);
  const std::vector<Token> other(tokens.rbegin(), tokens.rend());
  first.prefill(tokens);
  const Logits logits = copy_of(first.logits());
  EXPECT_THROW(second.prefill(other), Error);
  first.rest();
  EXPECT_TRUE(first.history().empty());
  // While nobody needs the room the text is still known.
  EXPECT_LT(first.prefill(tokens), context / 4);
  EXPECT_EQ(copy_of(first.logits()), logits);
  first.rest();
  second.prefill(other);
  second.rest();
  first.prefill(tokens);
  EXPECT_EQ(copy_of(first.logits()), logits);
}

TEST(Session, TokensThatAreNoneAreErrors) {
  TinyEngine tiny;
  const int n_vocab = tiny.engine->blueprint().n_vocab;
  const std::vector<std::vector<Token>> wrong = {{1, -1}, {1, n_vocab}};
  for (const std::vector<Token>& tokens : wrong) {
    EXPECT_THROW(tiny.session->prefill(tokens), Error);
    EXPECT_THROW(tiny.session->evaluate(tokens, {}), Error);
  }
  EXPECT_TRUE(tiny.session->history().empty());
}

TEST(Session, PromptsThatDoNotFitAreErrors) {
  prepare::Options options;
  options.memory.context = 16;
  TinyEngine tiny(small_model(), options);
  EXPECT_THROW(tiny.session->prefill({}), Error);
  const auto tokens = random_tokens(small_model(), 17);
  const std::string message = test::message_of<Error>([&] { tiny.session->prefill(tokens); });
  EXPECT_NE(message.find("‹context› 273"), std::string::npos) << message;
  // Who allows an answer any length is advised of a context that there may be.
  const std::string of_any_length =
      test::message_of<Error>([&] { tiny.session->check_room(600, INT_MAX); });
  EXPECT_NE(of_any_length.find("‹context› 8792,"), std::string::npos) << of_any_length;
  tiny.session->prefill(std::span(tokens).first(16));
  Sampler sampler({.temperature = 0.0f});
  EXPECT_THROW(tiny.session->next(sampler), Error);
  EXPECT_EQ(tiny.session->history().size(), 16u);
}

}  // namespace
}  // namespace troika::engine
