// Sparse attention of prompts in whole engines (S1, S2): with all positions it is dense attention,
// and its bits depend neither on chunks, threads, lanes and company nor on what was known before.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "engine/batcher.h"
#include "engine/session.h"
#include "tests/support/logits.h"
#include "tests/support/repository.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using plan::AttentionForm;
using test_support::TinyModel;
using test_support::TinyModelFile;
using text::Token;
using Row = std::vector<float>;

constexpr int kLongContext = 1024;

TinyModel long_model() {
  TinyModel model = test_support::tiny_model("llama");
  model.width = 64;
  model.n_heads = 6;
  model.n_kv_heads = 2;
  model.head_dim = model.rope_dims = 32;
  model.ffn_width = 128;
  model.type = test_support::kQ8_0;
  model.context = kLongContext;
  return model;
}

class SparseAttention : public testing::Test {
 protected:
  static prepare::Options options(AttentionForm form = AttentionForm::kTile, double percent = 20) {
    static const TinyModelFile file(long_model());
    prepare::Options options;
    options.model.file = file.path();
    options.memory.context = kLongContext;
    options.lanes.n_threads = 1;
    options.prompts.prefill = plan::Prefill::kBf16;
    options.prompts.attention = form;
    options.prompts.attention_from = 512;
    if (form != AttentionForm::kDense) options.prompts.attention_share = percent;
    return options;
  }
  static std::vector<Token> tokens(size_t n, uint64_t seed = 3) {
    return test_support::random_tokens(long_model(), n, seed);
  }
  static Row row(Session& session) {
    const std::span<const float> logits = session.logits();
    return {logits.begin(), logits.end()};
  }
  static Row last_logits(Engine& engine, const std::vector<Token>& prompt) {
    Session session(engine);
    session.prefill(prompt);
    return row(session);
  }
  static Row last_logits(const prepare::Options& options, const std::vector<Token>& prompt) {
    Engine engine(options);
    return last_logits(engine, prompt);
  }
};

TEST_F(SparseAttention, S2AllPositionsAreDenseAttentionToTheBit) {
  for (const size_t n : {600, 1000}) {
    const Row dense = last_logits(options(AttentionForm::kDense), tokens(n));
    EXPECT_EQ(last_logits(options(AttentionForm::kTile, 100), tokens(n)), dense) << n;
    EXPECT_NE(last_logits(options(AttentionForm::kTile, 5), tokens(n)), dense) << n;
    EXPECT_NE(last_logits(options(AttentionForm::kQuery, 5), tokens(n)), dense) << n;
  }
}

// Before the position from which on attention is sparse there is no difference.
TEST_F(SparseAttention, S2ShortPromptsAreDense) {
  for (const size_t n : {40, 512, 575}) {  // the tile from 512 on is not whole
    EXPECT_EQ(last_logits(options(AttentionForm::kTile, 5), tokens(n)),
              last_logits(options(AttentionForm::kDense), tokens(n)));
  }
}

TEST_F(SparseAttention, S1S2ChunksAndThreadsChangeNoBit) {
  for (const AttentionForm form : {AttentionForm::kTile, AttentionForm::kQuery}) {
    for (const size_t n : {size_t{640}, size_t{929}}) {
      const Row wanted = last_logits(options(form), tokens(n));
      for (const int chunk : {64, 128, 192}) {
        for (const int n_threads : {1, 2, 3}) {
          prepare::Options other = options(form);
          other.prompts.chunk = chunk;
          other.lanes.n_threads = n_threads;
          // What is computed as a step depends on the chunk: here nothing.
          Engine engine(other);
          if (engine.plan().n_prompt_phase(static_cast<int>(n)) != static_cast<int>(n)) continue;
          EXPECT_EQ(last_logits(engine, tokens(n)), wanted) << chunk << ", " << n_threads;
        }
      }
    }
  }
}

// Parts as short as others' waiting allows.
TEST_F(SparseAttention, S2PartsOfAnyLengthChangeNoBit) {
  const std::vector<int> cores = usable_core_numbers();
  for (const AttentionForm form : {AttentionForm::kTile, AttentionForm::kQuery}) {
    const Row wanted = last_logits(options(form), tokens(900));
    for (const size_t n_lanes : {1, 2}) {
      if (cores.size() < n_lanes) continue;
      prepare::Options other = options(form);
      if (n_lanes == 2) {
        other.lanes.n_threads = 0;
        other.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
        other.lanes.placements = {{"attention", 0, 1}};
      }
      Engine engine(other);
      for (const int most : {10, 100, 300}) {
        Session session(engine, engine::Reuse::kOwn);
        session.begin_prompt(tokens(900));
        while (session.n_unread() > 0) session.read_prompt(most, nullptr);
        EXPECT_EQ(row(session), wanted) << most << " on " << n_lanes;
      }
    }
  }
}

TEST_F(SparseAttention, S2LanesAndOrdersChangeNoBit) {
  const std::vector<int> cores = usable_core_numbers();
  if (cores.size() < 2) GTEST_SKIP() << "two lanes need two cores";
  for (const AttentionForm form : {AttentionForm::kTile, AttentionForm::kQuery}) {
    prepare::Options one = options(form);
    one.prompts.chunk = 128;
    const Row wanted = last_logits(one, tokens(960));
    for (const plan::Order order : {plan::Order::kInOrder, plan::Order::kOutOfOrder}) {
      prepare::Options two = one;
      two.lanes.n_threads = 0;
      two.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
      two.lanes.placements = {{"attention", 0, 1}};
      two.prompts.order = order;
      EXPECT_EQ(last_logits(two, tokens(960)), wanted);
      two.lanes.placements.clear();
      two.lanes.cuts = {plan::cut_from_text("attention=heads:0:1,1:1")};
      EXPECT_EQ(last_logits(two, tokens(960)), wanted);
    }
  }
}

// A prompt takes over what it shares with one before it, in whole tiles, and gets the bits of a
// fresh one.
TEST_F(SparseAttention, S2WhatIsTakenOverChangesNoBit) {
  for (const AttentionForm form : {AttentionForm::kTile, AttentionForm::kQuery}) {
    Engine engine(options(form));
    for (const size_t n_common : {500, 600, 700, 707, 768, 800}) {
      std::vector<Token> first = tokens(860), second = first;
      for (size_t i = n_common; i < second.size(); ++i) second[i] = (second[i] + 1) % 256;
      second.resize(820);
      const Row wanted = last_logits(options(form), second);
      Session session(engine);
      session.prefill(first);
      EXPECT_GT(session.prefill(second), 0);
      EXPECT_EQ(row(session), wanted) << n_common;
      // And a shorter one, whose last tile has fewer tokens.
      second.resize(n_common + 20);
      session.prefill(second);
      EXPECT_EQ(row(session), last_logits(options(form), second)) << n_common;
    }
  }
}

// A tile that was computed without its beginning is dense, and says so: who asks for the whole
// prompt later gets the bits of a fresh one.
TEST_F(SparseAttention, S2TextsThatAreContinuedChangeNoBitOfOthers) {
  Engine engine(options());
  const std::vector<Token> prompt = tokens(900);
  const Row wanted = last_logits(options(), prompt);
  {
    Session session(engine, engine::Reuse::kAll);
    session.evaluate(std::span(prompt).first(700), {});
    session.evaluate(std::span(prompt).subspan(700), {});
  }
  Session session(engine, engine::Reuse::kAll);
  EXPECT_EQ(session.prefill(prompt), 900 - 640);  // the tiles before are taken over
  EXPECT_EQ(row(session), wanted);
}

TEST_F(SparseAttention, S2CompanyChangesNoBit) {
  prepare::Options shared = options();
  shared.prompts.chunk = 128;
  const auto texts = [&](bool is_together) {
    Engine engine(shared);
    engine::Batcher batcher(engine);
    std::vector<std::vector<Token>> result;
    std::vector<int> numbers;
    for (const size_t n : {700, 640, 930}) {
      engine::AnswerRequest request;
      request.prompt = tokens(n, n);
      request.options.most_tokens = 12;
      numbers.push_back(batcher.submit(std::move(request)));
      if (!is_together) {
        while (!batcher.is_done(numbers.back())) batcher.step();
      }
    }
    for (const int number : numbers) {
      while (!batcher.is_done(number)) batcher.step();
      result.push_back(batcher.take(number).tokens);
    }
    return result;
  };
  EXPECT_EQ(texts(true), texts(false));
}

std::string engine_refusal(const prepare::Options& options) {
  try {
    const Engine engine(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_F(SparseAttention, WhatDoesNotFitIsASentence) {
  prepare::Options same = options();
  same.prompts.prefill = plan::Prefill::kSame;
  EXPECT_NE(engine_refusal(same).find("with ‹prefill› same it is that of steps"),
            std::string::npos);
  prepare::Options chunk = options();
  chunk.prompts.chunk = 100;
  EXPECT_NE(engine_refusal(chunk).find("‹chunk› 100 divides tiles of 64 tokens"),
            std::string::npos);
  chunk.prompts.attention = AttentionForm::kQuery;
  EXPECT_EQ(engine_refusal(chunk), "accepted");
  for (const double percent : {0.0, -3.0, 101.0}) {
    EXPECT_NE(engine_refusal(options(AttentionForm::kTile, percent)).find("‹attention-share›"),
              std::string::npos);
  }
  for (const int from : {0, 500, 530, -64}) {
    prepare::Options early = options();
    early.prompts.attention_from = from;
    EXPECT_NE(engine_refusal(early).find("‹attention-from›"), std::string::npos);
  }
}

}  // namespace
}  // namespace troika
