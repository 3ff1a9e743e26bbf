#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "base/trace.h"
#include "draft/sam.h"
#include "engine/generate.h"
#include "tests/support/tiny_engine.h"

namespace troika::engine {
namespace {

using test_support::copy_of;
using test_support::NamedModel;
using test_support::random_tokens;
using test_support::small_model;
using test_support::TinyEngine;
using Tokens = std::vector<Token>;

// A source that knows how the text goes on and guesses that, with a wrong branch beside it. Now and
// then it puts a wrong token in the middle. So every shape of draft and every kind of rejection
// occurs.
class Oracle : public draft::Source {
 public:
  Oracle(Tokens whole, int n_vocab) : whole_(std::move(whole)), n_vocab_(n_vocab) {}
  const char* name() const override { return "oracle"; }
  void reset() override { n_seen_ = 0; }
  void observe(std::span<const Token> tokens) override { n_seen_ += tokens.size(); }
  bool uses_predictions() const override { return true; }
  void propose(int most, draft::Tree* tree) override {
    ++n_calls_;
    const int wrong_at = static_cast<int>(9 * random_unit(5, n_calls_));
    const int branch_at = static_cast<int>(4 * random_unit(6, n_calls_));
    int parent = draft::kRoot;
    for (int depth = 0; depth < 8 && tree->size() + 3 <= most; ++depth) {
      const size_t at = n_seen_ + static_cast<size_t>(depth);
      const Token right = at < whole_.size() ? whole_[at] : 3;
      const Token wrong = (right + 1 + static_cast<Token>(n_calls_ % 5)) % n_vocab_;
      if (depth == branch_at) tree->add(tree->add(parent, wrong, 0.6f), right, 0.6f);
      parent = tree->add(parent, depth == wrong_at ? wrong : right, 0.9f);
    }
  }
  void learn(const draft::Verdict& verdict) override {
    ASSERT_EQ(verdict.predicted.size(), static_cast<size_t>(verdict.tree.size()) + 1);
    // On the accepted path the model said what was accepted.
    int at = draft::kRoot;
    for (const int node : verdict.path) {
      ASSERT_EQ(verdict.predicted[static_cast<size_t>(at + 1)], verdict.tree[node].token);
      at = node;
    }
    if (verdict.next < 0) return;
    ASSERT_EQ(verdict.predicted[static_cast<size_t>(at + 1)], verdict.next);
  }

 private:
  Tokens whole_;
  int n_vocab_;
  size_t n_seen_ = 0;
  uint64_t n_calls_ = 0;
};

draft::Drafter oracle_drafter(const Tokens& whole, int n_vocab, int width = draft::kMostWidth) {
  std::vector<std::unique_ptr<draft::Source>> sources;
  sources.push_back(std::make_unique<Oracle>(whole, n_vocab));
  return draft::Drafter(std::move(sources), {width, /*is_fixed=*/true});
}

// A mask that allows every third token, which depends on the length of the path. It stands for a
// grammar.
class EveryThird : public LogitMask {
 public:
  void apply(std::span<const Token> history, std::span<float> logits) override {
    for (size_t i = 0; i < logits.size(); ++i) {
      if ((i + history.size()) % 3 != 0) logits[i] = -std::numeric_limits<float>::infinity();
    }
  }
};

SamplerOptions greedy() {
  SamplerOptions o;
  o.temperature = 0.0f;
  return o;
}

SamplerOptions sampled() {
  SamplerOptions o;
  o.temperature = 1.1f;
  o.top_k = 0;
  o.seed = 9;
  return o;
}

SamplerOptions penalised() {
  SamplerOptions o = sampled();
  o.top_k = 50;
  o.repetition_penalty = 1.3f;
  o.frequency_penalty = 0.2f;
  o.presence_penalty = 0.1f;
  o.penalty_window = 12;
  o.logit_bias = {{7, 2.0f}, {8, -5.0f}};
  return o;
}

GenerateOptions length(int n) {
  GenerateOptions o;
  o.most_tokens = n;
  o.ignore_end = true;
  return o;
}

Tokens with(const Tokens& prompt, const Tokens& answer) {
  Tokens whole = prompt;
  whole.insert(whole.end(), answer.begin(), answer.end());
  return whole;
}

// Expects that drafted text has the tokens of plain text, and that the cache behind it has the same
// bits.
void expect_equal(TinyEngine& tiny, const Tokens& prompt, const SamplerOptions& how,
                  LogitMask* mask = nullptr) {
  constexpr int kTokens = 40;
  Sampler sampler(how, mask);
  Session plain(*tiny.engine);
  const Tokens expected = generate(plain, prompt, sampler, length(kTokens), {}).tokens;
  draft::Drafter drafter = oracle_drafter(with(prompt, expected), tiny.engine->blueprint().n_vocab);
  GenerateOptions options = length(kTokens);
  options.drafter = &drafter;
  Session drafted(*tiny.engine);
  int n_drafted = 0;
  options.on_token = [&](Token, bool is_drafted) { n_drafted += is_drafted; };
  const Generated g = generate(drafted, prompt, sampler, options, {});
  EXPECT_EQ(g.tokens, expected);
  EXPECT_GT(drafter.statistics().n_accepted, kTokens / 3);
  EXPECT_GT(drafter.statistics().n_verified, drafter.statistics().n_accepted);
  EXPECT_EQ(drafter.statistics().n_accepted, n_drafted);
  EXPECT_EQ(drafter.statistics().n_verifications, g.n_steps);
  EXPECT_EQ(drafter.statistics().n_tokens, kTokens - 1);
  EXPECT_EQ(drafted.history(), plain.history());
  EXPECT_EQ(copy_of(drafted.logits()), copy_of(plain.logits()));
}

class EveryModel : public testing::TestWithParam<NamedModel> {};

TEST_P(EveryModel, D3_DraftedTextIsThePlainText) {
  for (const tensor::Type kv : {tensor::Type::kF32, tensor::Type::kF16, tensor::Type::kQ8_0}) {
    prepare::Options options;
    options.memory.kv_type = kv;
    options.lanes.n_threads = kv == tensor::Type::kF16 ? 2 : 1;
    TinyEngine tiny(GetParam().model, options);
    const Tokens prompt = random_tokens(GetParam().model, 9);
    SCOPED_TRACE(tensor::type_name(kv));
    expect_equal(tiny, prompt, greedy());
    expect_equal(tiny, prompt, sampled());
    expect_equal(tiny, prompt, penalised());
    EveryThird mask;
    expect_equal(tiny, prompt, sampled(), &mask);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, EveryModel,
                         testing::ValuesIn(test_support::tiny_model_variants()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class Step : public testing::Test {
 protected:
  static prepare::Options options() {
    prepare::Options o;
    o.memory.context = 64;
    return o;
  }
  Tokens plain(int n_tokens) {
    Session session(*tiny_.engine);
    Sampler sampler(greedy());
    return generate(session, prompt_, sampler, length(n_tokens), {}).tokens;
  }
  draft::Drafter drafter() {
    return oracle_drafter(with(prompt_, plain(50)), tiny_.engine->blueprint().n_vocab);
  }

  TinyEngine tiny_{small_model(), options()};
  Tokens prompt_ = random_tokens(small_model(), 6);
};

// A token sees its ancestors and no other guess, so branches need no passes of their own.
TEST_F(Step, D3_ATreeIsVerifiedInOnePass) {
  const Tokens answer = plain(12);
  draft::Drafter drafter = this->drafter();
  Session& session = *tiny_.session;
  Sampler sampler(greedy());
  session.prefill(prompt_);
  drafter.begin(session.history());
  session.step(sampler, &drafter, 50);  // uses the logits of the prompt
  int n_branched = 0;
  for (int i = 0; i < 4; ++i) {
    Trace trace({"host"});
    session.watch({.trace = &trace});
    const int64_t n_before = drafter.statistics().n_verified;
    session.step(sampler, &drafter, 50);
    const int64_t n_nodes = drafter.statistics().n_verified - n_before;
    n_branched += n_nodes > 8;  // has a branch, because the oracle's own path has eight
    int n_passes = 0;
    for (const TraceEvent& event : trace.events()) {
      if (std::string(event.name) != "qkv" || event.block != 0) continue;
      ++n_passes;
      EXPECT_EQ(event.n_tokens, n_nodes + 1);
    }
    EXPECT_EQ(n_passes, 1);
  }
  session.watch({});
  EXPECT_GT(n_branched, 0);
  ASSERT_GE(session.history().size(), prompt_.size() + answer.size());
  const Tokens whole = with(prompt_, answer);
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), session.history().begin()));
}

// The number of tokens and the end of the context cut a draft short as they cut plain text.
TEST_F(Step, EndsWherePlainDecodingEnds) {
  for (const int n : {1, 2, 3, 17, 58, -1}) {
    draft::Drafter drafter = this->drafter();
    GenerateOptions o = length(n);
    o.drafter = &drafter;
    Sampler sampler(greedy());
    const Generated g = generate(*tiny_.session, prompt_, sampler, o, {});
    EXPECT_EQ(g.tokens, plain(n));
    EXPECT_EQ(g.stop, n < 0 ? Stop::kContext : Stop::kLength);
    EXPECT_EQ(tiny_.session->history(), with(prompt_, g.tokens));
  }
}

// Where other texts have taken nearly all slots, guesses do without, and the text goes on.
TEST_F(Step, GuessesEndNoTextForWhichThereAreSlots) {
  constexpr int kMore = 5;
  const Tokens expected = plain(kMore + 1);
  draft::Drafter drafter = this->drafter();
  Session& session = *tiny_.session;
  Sampler sampler(greedy());
  session.prefill(prompt_);
  drafter.begin(session.history());
  session.step(sampler, &drafter, 50);
  {
    Passes& passes = tiny_.engine->passes();
    const std::lock_guard<TurnMutex> lock(passes.mutex);
    passes.kv.limit_slots(static_cast<int>(prompt_.size()) + kMore);
  }
  const size_t whole = prompt_.size() + 1 + kMore;
  while (session.history().size() < whole) ASSERT_NO_THROW(session.step(sampler, &drafter, 50));
  EXPECT_EQ(session.history(), with(prompt_, expected));
  EXPECT_THROW(session.step(sampler, &drafter, 50), Error);
}

TEST_F(Step, EndsAtEndTokensAndStopStringsInsideOfADraft) {
  SamplerOptions o = sampled();
  o.logit_bias = {{tiny_.engine->tokenizer().eos(), 4.0f}};
  Sampler sampler(o);
  int n_ends = 0, n_strings = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Tokens prompt = random_tokens(small_model(), 6, seed);
    GenerateOptions options;
    options.most_tokens = 50;
    if (seed % 2 == 0) options.stops = {"a", "e"};
    Session session(*tiny_.engine);
    const Generated expected = generate(session, prompt, sampler, options, {});
    // The oracle also guesses tokens behind the end, which must not become text.
    Tokens whole = with(prompt, expected.tokens);
    whole.insert(whole.end(), 20, whole.back());
    draft::Drafter drafter = oracle_drafter(whole, tiny_.engine->blueprint().n_vocab);
    options.drafter = &drafter;
    const Generated g = generate(*tiny_.session, prompt, sampler, options, {});
    EXPECT_EQ(g.tokens, expected.tokens);
    EXPECT_EQ(g.text, expected.text);
    EXPECT_EQ(g.stop, expected.stop);
    EXPECT_EQ(tiny_.session->history(), session.history());
    n_ends += g.stop == Stop::kEnd;
    n_strings += g.stop == Stop::kString;
  }
  EXPECT_GT(n_ends, 0);
  EXPECT_GT(n_strings, 0);
}

// Where no token may follow a text, the tokens before stay accepted, and the next call reports the
// error.
TEST_F(Step, AnErrorBehindAcceptedTokensComesWithTheNextCall) {
  class NothingAfter : public LogitMask {
   public:
    explicit NothingAfter(size_t length) : length_(length) {}
    void apply(std::span<const Token> history, std::span<float> logits) override {
      if (history.size() < length_) return;
      std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
    }

   private:
    size_t length_;
  };
  const Tokens whole = with(prompt_, plain(20));
  for (size_t last = 8; last < 16; ++last) {
    NothingAfter mask(last);
    Sampler sampler(greedy(), &mask);
    draft::Drafter drafter = this->drafter();
    Session session(*tiny_.engine);
    session.prefill(prompt_);
    drafter.begin(session.history());
    EXPECT_THROW(
        {
          while (session.history().size() < 30) session.step(sampler, &drafter, 30);
        },
        Error);
    EXPECT_EQ(session.history(), Tokens(whole.begin(), whole.begin() + static_cast<long>(last)));
  }
}

// The source looks for repetitions, and greedy text of a random model soon repeats.
TEST_F(Step, TheWidthFollowsWhatPays) {
  std::vector<std::unique_ptr<draft::Source>> sources;
  sources.push_back(std::make_unique<draft::SamSource>());
  draft::Drafter drafter(std::move(sources));
  GenerateOptions o = length(50);
  o.drafter = &drafter;
  Sampler sampler(greedy());
  EXPECT_EQ(generate(*tiny_.session, prompt_, sampler, o, {}).tokens, plain(50));
}

}  // namespace
}  // namespace troika::engine
