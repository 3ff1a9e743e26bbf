// Sparse attention of prompts runs in whole engines (S1, S2). With all positions it is dense
// attention, and its bits depend neither on chunks, threads, lanes and other answers nor on what
// was known before.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "attention/choose/head_ratios.h"
#include "base/system.h"
#include "engine/session.h"
#include "measure/estimate_quality.h"
#include "tests/support/company.h"
#include "tests/support/engine_refusal.h"
#include "tests/support/logits.h"
#include "tests/support/repository.h"
#include "tests/support/temp_folder.h"
#include "tune/attention/attention_statistics.h"
#include "tune/attention/tune_attention.h"
#include "tune/default_text.h"
#include "tune/proof/text_parts.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using plan::AttentionForm;
using test_support::engine_refusal;
using test_support::TinyModel;
using test_support::TinyModelFile;
using text::Token;
using Row = std::vector<float>;

constexpr int kLongContext = 1024;
constexpr double kByWeight = 0;  // stands for positions that are chosen by weight, not by a share
constexpr std::pair<AttentionForm, double> kForms[] = {
    {AttentionForm::kSparse, 20}, {AttentionForm::kSparse, kByWeight}, {AttentionForm::kQuery, 20}};

TinyModel long_model() { return test_support::narrow_llama(kLongContext, 6, 2); }

class SparseAttention : public testing::Test {
 protected:
  static prepare::Options options(AttentionForm form = AttentionForm::kSparse,
                                  double percent = 20) {
    static const TinyModelFile file(long_model());
    prepare::Options options;
    options.model.file = file.path();
    options.memory.context = kLongContext;
    options.lanes.n_threads = 1;
    options.prompts.prefill = plan::Prefill::kBf16;
    options.prompts.attention = form;
    options.prompts.attention_from = 512;
    if (percent == kByWeight) {
      options.prompts.attention_above = 1.1;
    } else if (form != AttentionForm::kFull) {
      options.prompts.attention_share = percent;
    }
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
  // Expects the bits of a whole prompt however long the parts are in which it is read: by one lane,
  // or with attention on the second of two where there are `cores` for them.
  static void expect_parts_are_equal(AttentionForm form, double percent,
                                     const std::vector<int>& cores) {
    // Where block 0 sees everything, only a last token in a whole tile shows a difference.
    const std::vector<Token> prompt = tokens(percent == kByWeight ? 896 : 900);
    prepare::Options other = options(form, percent);
    const Row wanted = last_logits(other, prompt);
    if (!cores.empty()) {
      other.lanes.n_threads = 0;
      other.lanes.cores = {{{cores.at(0)}, 1}, {{cores.at(1)}, 1}};
      other.lanes.placements = {{"attention", 0, 1}};
    }
    Engine engine(other);
    for (const int most : {10, 100, 300}) {
      Session session(engine, engine::Reuse::kOwn);
      session.begin_prompt(prompt);
      while (session.n_unread() > 0) session.read_prompt(most, nullptr);
      EXPECT_EQ(row(session), wanted) << most;
    }
  }
};

TEST_F(SparseAttention, S2AllPositionsAreDenseAttentionToTheBit) {
  for (const size_t n : {600, 1000}) {
    const Row dense = last_logits(options(AttentionForm::kFull), tokens(n));
    EXPECT_EQ(last_logits(options(AttentionForm::kSparse, 100), tokens(n)), dense) << n;
    EXPECT_NE(last_logits(options(AttentionForm::kSparse, 5), tokens(n)), dense) << n;
    EXPECT_NE(last_logits(options(AttentionForm::kQuery, 5), tokens(n)), dense) << n;
  }
}

// Where weights decide and nothing is tuned, block 0 sees everything. In a tuned plan the heads
// with a share of 1 do.
TEST_F(SparseAttention, S2WeightsDecideInUntunedModelsButForTheFirstBlock) {
  const prepare::Options by_weight = options(AttentionForm::kSparse, kByWeight);
  const plan::Plan usual = Engine(by_weight).plan();
  EXPECT_TRUE(usual.attention.is_untuned());
  const auto with = [&](std::vector<float> shares, double above) {
    prepare::Options other = by_weight;
    other.prompts.attention_above = above;
    other.plan.base = usual;
    other.plan.base->attention.head_shares = std::move(shares);
    return last_logits(other, tokens(768));
  };
  const TinyModel model = long_model();
  const auto n_heads = static_cast<size_t>(model.n_heads);
  const auto n = static_cast<size_t>(model.n_layers) * n_heads;
  const Row full = last_logits(options(AttentionForm::kFull), tokens(768));
  const Row untuned = with({}, 1.1);
  EXPECT_NE(untuned, full);
  EXPECT_EQ(with(std::vector<float>(n, 1.0f), 1.1), full);
  std::vector<float> first(n, 0.2f);
  EXPECT_NE(with(first, 1.1), untuned);
  std::fill_n(first.begin(), n_heads, 1.0f);
  EXPECT_EQ(with(first, 1.1), untuned);
  EXPECT_NE(with(first, 1e5), untuned);
}

// Each head keeps the share that a plan gives it.
TEST_F(SparseAttention, S3EachHeadKeepsItsShare) {
  const prepare::Options uniform = options();
  const plan::Plan usual = Engine(uniform).plan();
  const auto with = [&](AttentionForm form, std::vector<float> shares) {
    prepare::Options other = uniform;
    other.prompts.attention = form;
    other.prompts.attention_share.reset();
    other.plan.base = usual;
    other.plan.base->attention.head_shares = std::move(shares);
    return last_logits(other, tokens(900));
  };
  const TinyModel model = long_model();
  const auto n = static_cast<size_t>(model.n_layers * model.n_heads);
  const Row full = last_logits(options(AttentionForm::kFull), tokens(900));
  const Row fifth = last_logits(uniform, tokens(900));
  for (const AttentionForm form : {AttentionForm::kSparse, AttentionForm::kQuery}) {
    std::vector<float> shares(n, 0.2f);
    const Row equal = with(form, shares);
    EXPECT_EQ(equal, last_logits(options(form), tokens(900)));
    // The head is in the first layer, whose whole tiles count. The last layer shows only the last
    // token, which is in no whole tile.
    shares.front() = 1.0f;
    EXPECT_NE(with(form, shares), equal);
  }
  EXPECT_EQ(with(AttentionForm::kSparse, std::vector<float>(n, 1.0f)), full);
  // Heads that choose together keep the mean of their shares.
  std::vector<float> mixed(n);
  // Heads are in groups of 3.
  for (size_t i = 0; i < n; ++i) mixed[i] = 0.1f * static_cast<float>(1 + i % 3);
  EXPECT_EQ(with(AttentionForm::kSparse, mixed), fifth);
  EXPECT_NE(with(AttentionForm::kQuery, mixed), with(AttentionForm::kQuery, {}));
  // Leaving a head out changes the result, but only where heads choose positions.
  std::vector<float> without(n, 1.0f);
  without[1] = plan::kLeftOut;
  EXPECT_NE(with(AttentionForm::kSparse, without), full);
  EXPECT_THROW(with(AttentionForm::kSparse, std::vector<float>(n + 1, 0.2f)), Error);
}

// What heads attend to is observed while a prompt runs, and tuning makes shares of it.
TEST_F(SparseAttention, S3WhatHeadsKeepIsSeenOnAText) {
  prepare::Options full = options(AttentionForm::kFull);
  Engine engine(full);
  tune::AttentionStatistics statistics(engine.kernels().table, engine.blueprint(), 512, 1);
  Session session(engine);
  session.watch({.inputs = &statistics});
  session.prefill(tokens(960));
  EXPECT_GT(statistics.n_seen(), 0u);
  const std::vector<tune::KeptMass> kept_on_average = statistics.mean_kept();
  ASSERT_EQ(kept_on_average.size(), static_cast<size_t>(long_model().n_layers * 2));
  for (const tune::KeptMass& mass : kept_on_average) {
    EXPECT_TRUE(std::is_sorted(mass.begin(), mass.end()));
    EXPECT_GT(mass.front(), 0.0);
    EXPECT_NEAR(mass.back(), 1.0, 1e-5);
  }
  for (const auto& thresholds : statistics.kept_by_weight()) {
    for (const tune::KeptByWeight& kept : thresholds) {
      EXPECT_GT(kept.worst, 0.0);
      EXPECT_LE(kept.worst, kept.mean);
      EXPECT_LE(kept.mean, 1.0 + 1e-5);
      EXPECT_GT(kept.share, 0.0);
      EXPECT_LT(kept.share, 1.0);
    }
  }
}

// Shares have the mean that was asked for. Heads that keep everything by their weight may be more
// than that; then the others keep the least that is looked at.
void expect_mean_share(std::span<const float> shares, bool is_by_weight) {
  const auto n_all = static_cast<double>(std::count(shares.begin(), shares.end(), 1.0f));
  const auto n = static_cast<double>(shares.size());
  const double least = (n_all + (n - n_all) * tune::kKeptShares.front()) / n;
  EXPECT_NEAR(plan::mean_share(shares), is_by_weight ? std::max(0.2, least) : 0.2, 0.001);
}

// Returns a request that looks at windows of 2,048 tokens of a model in a file.
tune::AttentionRequest tuning_of(prepare::Options options) {
  tune::AttentionRequest request;
  request.options = std::move(options);
  request.options.memory.context = 2048 + 256;
  request.options.prompts.attention.reset();
  request.options.prompts.attention_from.reset();
  request.plan = Engine(request.options).plan();
  std::tie(request.calibration, request.held_out) = tune::halves(std::string(tune::default_text()));
  request.text_name = "a text";
  request.trained_context = 2048;
  request.seconds_per_token = 1e-6;
  request.seconds = 0.025;  // is enough for one window of each half
  request.stage = [](const std::string&) { return [](uint64_t, uint64_t) {}; };
  return request;
}

// In gemma2 every second layer sees a window. Its heads see all of that, whatever a share says, and
// must neither take from the others nor give them anything.
TEST_F(SparseAttention, S3HeadsThatSeeAWindowAreNoPartOfTheMean) {
  TinyModel model = test_support::tiny_model("gemma2");
  model.context = 2048;
  const TinyModelFile file(model);
  prepare::Options full = options(AttentionForm::kFull);
  full.model.file = file.path();
  tune::AttentionRequest request = tuning_of(full);
  for (const tune::ShareRule rule :
       {tune::ShareRule::kWeight, tune::ShareRule::kKeptMass, tune::ShareRule::kImportance}) {
    tune::CalibrationState state("", "test");
    request.rule = rule;
    const std::vector<float> shares = tune::tune_attention(request, &state).attention.head_shares;
    const size_t n_heads = model.n_heads;
    ASSERT_EQ(shares.size(), 2 * n_heads);
    for (size_t head = 0; head < n_heads; ++head) EXPECT_EQ(shares[head], 0.2f);
    expect_mean_share(std::span(shares).subspan(n_heads), rule == tune::ShareRule::kWeight);
  }
}

TEST_F(SparseAttention, S3TuningFindsSharesAndMeasuresWhatTheyLose) {
  TinyModel model = long_model();
  model.context = 2048;
  const TinyModelFile file(model);
  prepare::Options full = options(AttentionForm::kFull);
  full.model.file = file.path();
  tune::AttentionRequest request = tuning_of(full);
  for (const tune::ShareRule rule :
       {tune::ShareRule::kWeight, tune::ShareRule::kKeptMass, tune::ShareRule::kImportance}) {
    tune::CalibrationState state("", "test");
    request.rule = rule;
    const tune::AttentionTuning tuning = tune::tune_attention(request, &state);
    EXPECT_EQ(tuning.window, 2048);
    ASSERT_EQ(tuning.attention.head_shares.size(), model.n_layers * model.n_heads);
    const bool is_by_weight = rule == tune::ShareRule::kWeight;
    EXPECT_EQ(tuning.attention.above > 0, is_by_weight);
    expect_mean_share(tuning.attention.head_shares, is_by_weight);
    ASSERT_TRUE(tuning.loss);
    EXPECT_GT(tuning.loss->n_tokens, 900u);
    if (!tune::is_proven(*tuning.loss)) {
      EXPECT_EQ(tuning.attention.form, AttentionForm::kFull);
    }
    EXPECT_EQ(tuning.attention.reason.starts_with("sparse: "), tuning.attention.is_sparse());
  }
  const auto reason_of = [&] {
    tune::CalibrationState state("", "test");
    return tune::tune_attention(request, &state).attention.reason;
  };
  request.held_out = request.held_out.substr(0, 600);
  EXPECT_NE(reason_of().find("no more than 1024 tokens"), std::string::npos);
  request.seconds = 0.001;
  EXPECT_NE(reason_of().find("‹seconds›"), std::string::npos);
  request.trained_context = 512;
  EXPECT_NE(reason_of().find("trained on 512 tokens"), std::string::npos);
  request.options.lanes.is_strict_npu = true;
  EXPECT_NE(reason_of().find("‹strict-npu›"), std::string::npos);
  request.plan.prefill = plan::Prefill::kSame;
  EXPECT_NE(reason_of().find("attend as steps do"), std::string::npos);
}

// Returns a model whose first head sees all positions alike, because its keys are 0. All queries of
// its second head look at the token that begins a text: at that channel of its embedding which no
// other token has.
TinyModelFile two_kinds_of_heads() {
  TinyModel model = test_support::narrow_llama(2048, 2, 2);
  model.n_layers = 1;
  const auto n = static_cast<size_t>(model.width);
  for (const char* name : {"token_embd.weight", "attn_q.weight", "attn_k.weight"}) {
    model.types[name] = test_support::kF32;  // which no other matrix is
  }
  const size_t n_embedding = n * model.vocabulary, last_row = (n - 1) * n;
  int n_square = 0;  // queries come first, then keys
  const auto plant = [&](const uint32_t* type, std::vector<uint8_t>* data, size_t n_elements) {
    if (*type != test_support::kF32 || n_elements < n * n) return;
    std::vector<float> floats(n_elements);
    if (n_elements == n_embedding) {
      std::memcpy(floats.data(), data->data(), data->size());
      for (size_t at = 0; at < n_elements; at += n) floats[at] = 1.0f, floats[at + 1] = 0.0f;
      floats[n + 1] = 2.0f;  // of token 1, which begins texts
    } else {
      // The last element of a head is one that positions hardly rotate.
      floats[last_row + static_cast<size_t>(n_square++)] = 4.0f;
    }
    std::memcpy(data->data(), floats.data(), data->size());
  };
  return TinyModelFile(model, plant);
}

TEST_F(SparseAttention, S3DiffuseHeadsKeepMoreThanPeakedOnes) {
  const TinyModelFile model = two_kinds_of_heads();
  prepare::Options full = options(AttentionForm::kFull);
  full.model.file = model.path();
  tune::AttentionRequest request = tuning_of(full);
  const auto shares_by = [&](tune::ShareRule rule) {
    tune::CalibrationState state("", "test");
    request.rule = rule;
    std::vector<float> shares = tune::tune_attention(request, &state).attention.head_shares;
    EXPECT_EQ(shares.size(), 2u);
    shares.resize(2);
    return shares;
  };
  const std::vector<float> by_weight = shares_by(tune::ShareRule::kWeight);
  EXPECT_EQ(by_weight[0], 1.0f);
  EXPECT_LT(by_weight[1], 0.1f);
  const std::vector<float> by_mass = shares_by(tune::ShareRule::kKeptMass);
  EXPECT_GT(by_mass[0], 0.3f);
  EXPECT_LT(by_mass[1], 0.1f);
}

// Returns a model with two heads in each of two blocks. The first of them says nothing: its values
// are 0.
TinyModelFile silent_heads() {
  TinyModel model = test_support::narrow_llama(2048, 2, 2);
  model.types = {{"attn_v.weight", test_support::kF32}};  // no other square matrix has floats
  const size_t n_square = model.width * model.width;
  const auto silence = [&](const uint32_t* type, std::vector<uint8_t>* data, size_t n_elements) {
    if (*type != test_support::kF32 || n_elements != n_square) return;
    std::fill_n(data->begin(), data->size() / 2, uint8_t{0});
  };
  return TinyModelFile(model, silence);
}

// How much a head matters is what the text loses in likelihood where the head is left out. Those
// that matter keep more.
TEST_F(SparseAttention, S3WhatIsLostWithoutAHeadIsMeasured) {
  const TinyModelFile model = silent_heads();
  prepare::Options full = options(AttentionForm::kFull);
  full.model.file = model.path();
  tune::AttentionRequest request = tuning_of(full);
  request.rule = tune::ShareRule::kImportance;
  tune::CalibrationState state("", "test");
  const std::vector<float> shares = tune::tune_attention(request, &state).attention.head_shares;
  const auto loss_without = [&](const std::string& heads) {
    const nlohmann::json found = state.finding("attention without" + heads, [&] {
      ADD_FAILURE() << "nobody has left out" << heads;
      return nlohmann::ordered_json{{"nll", 0.0}};
    });
    return found["nll"].get<double>();
  };
  const double usual = loss_without("");
  std::vector<double> of_heads, of_layers;
  for (const char* head : {" 0", " 1", " 2", " 3"}) of_heads.push_back(loss_without(head) - usual);
  for (const char* both : {" 0 1", " 2 3"}) of_layers.push_back(loss_without(both) - usual);
  EXPECT_EQ(of_heads[0], 0.0);
  EXPECT_EQ(of_heads[2], 0.0);
  EXPECT_NE(of_heads[1], 0.0);
  EXPECT_NE(of_heads[3], 0.0);
  const std::vector<double> expected = attention::head_shares(of_heads, of_layers, request.share);
  ASSERT_EQ(shares.size(), expected.size());
  for (size_t i = 0; i < shares.size(); ++i) EXPECT_NEAR(shares[i], expected[i], 2e-4) << i;
  EXPECT_LT(shares[0], 0.001f);
  EXPECT_LT(shares[2], 0.001f);
  EXPECT_GT(std::max(shares[1], shares[3]), 0.2f);
}

// What was measured decides. The first threshold is taken that loses at most 0.5 %, or 1 % with two
// errors, where it is faster; the loss of each, and the gain, are given here.
TEST_F(SparseAttention, S3TheFirstThresholdThatLosesLittleIsTaken) {
  TinyModel model = long_model();
  model.context = 2048;
  const TinyModelFile file(model);
  prepare::Options full = options(AttentionForm::kFull);
  full.model.file = file.path();
  const tune::AttentionRequest request = tuning_of(full);
  struct Measured {
    std::array<double, 4> losses;  // of the thresholds
    double error, gain;
    double above;  // is taken; 0: none
  };
  for (const Measured& measured : {Measured{{0.001, 0.001, 0.001, 0.001}, 0.0005, 1.2, 20},
                                   {{0.03, 0.0051, 0.0049, 0.001}, 0.0005, 1.2, 5},
                                   {{0.03, 0.02, 0.0049, 0.0049}, 0.003, 1.2, 0},
                                   {{0.03, 0.02, 0.01, 0.0051}, 0.0005, 1.2, 0},
                                   {{0.03, 0.02, 0.01, 0.001}, 0.0005, 1.2, 2.5},
                                   {{0.001, 0.001, 0.001, 0.001}, 0.0005, 1.0, 0}}) {
    tune::CalibrationState state("", "test");
    for (size_t i = 0; i < tune::kTriedAbove.size(); ++i) {
      state.finding(
          fmt::format("attention loss weight {} {}", request.share, tune::kTriedAbove[i]), [&] {
            return nlohmann::ordered_json{
                {"tokens", 3000}, {"share", measured.losses.at(i)}, {"error", measured.error}};
          });
    }
    state.finding("attention gain", [&] {
      return nlohmann::ordered_json{{"gain", measured.gain}};
    });
    const plan::PromptAttention found = tune::tune_attention(request, &state).attention;
    EXPECT_EQ(found.is_sparse(), measured.above > 0) << found.reason;
    EXPECT_EQ(found.reason.starts_with("sparse: "), found.is_sparse()) << found.reason;
    if (measured.above == 0) continue;
    EXPECT_EQ(found.form, AttentionForm::kSparse);
    EXPECT_EQ(found.above, measured.above);
    // A prompt goes by it.
    prepare::Options tuned = request.options;
    tuned.plan.base = Engine(request.options).plan();
    tuned.plan.base->attention = found;
    EXPECT_NE(last_logits(tuned, tokens(1920)), last_logits(request.options, tokens(1920)));
  }
}

// Prompts that end before the position at which attention becomes sparse are dense.
TEST_F(SparseAttention, S2ShortPromptsAreDense) {
  for (const size_t n : {40, 512, 575}) {  // ends in the tile from 512 on, which is not whole
    EXPECT_EQ(last_logits(options(AttentionForm::kSparse, 5), tokens(n)),
              last_logits(options(AttentionForm::kFull), tokens(n)));
  }
}

TEST_F(SparseAttention, S1S2ChunksAndThreadsChangeNoBit) {
  for (const auto& [form, percent] : kForms) {
    for (const size_t n : {size_t{640}, size_t{929}}) {
      const Row wanted = last_logits(options(form, percent), tokens(n));
      for (const int chunk : {64, 128, 192}) {
        for (const int n_threads : {1, 2, 3}) {
          prepare::Options other = options(form, percent);
          other.prompts.chunk = chunk;
          other.lanes.n_threads = n_threads;
          // How many tokens are computed as steps depends on the chunk. Here none must be.
          Engine engine(other);
          if (engine.plan().n_prompt_phase(static_cast<int>(n)) != static_cast<int>(n)) continue;
          EXPECT_EQ(last_logits(engine, tokens(n)), wanted) << chunk << ", " << n_threads;
        }
      }
    }
  }
}

// These are the forms of attention with which shadowAttn is compared.
TEST_F(SparseAttention, S8AlternativesDifferAndNeitherChunksNorThreadsChangeABit) {
  const Row full = last_logits(options(AttentionForm::kFull), tokens(768));
  for (const AttentionForm form : {AttentionForm::kBlock, AttentionForm::kInt8}) {
    const Row wanted = last_logits(options(form, 5), tokens(768));
    EXPECT_NE(wanted, full);
    for (const int chunk : {64, 128}) {
      prepare::Options other = options(form, 5);
      other.prompts.chunk = chunk;
      other.lanes.n_threads = 2;
      EXPECT_EQ(last_logits(other, tokens(768)), wanted);
    }
  }
  EXPECT_EQ(last_logits(options(AttentionForm::kBlock, 100), tokens(768)), full);
}

// Parts of a prompt may be as short as waiting answers need.
TEST_F(SparseAttention, S2PartsOfAnyLengthChangeNoBit) {
  for (const auto& [form, percent] : kForms) expect_parts_are_equal(form, percent, {});
}

TEST_F(SparseAttention, S2PartsOfAnyLengthChangeNoBitOnTwoLanes) {
  const std::vector<int> cores = usable_core_numbers();
  if (cores.size() < 2) GTEST_SKIP() << "two lanes need two cores";
  for (const auto& [form, percent] : kForms) expect_parts_are_equal(form, percent, cores);
}

TEST_F(SparseAttention, S2LanesAndOrdersChangeNoBit) {
  const std::vector<int> cores = usable_core_numbers();
  if (cores.size() < 2) GTEST_SKIP() << "two lanes need two cores";
  for (const auto& [form, percent] : kForms) {
    prepare::Options one = options(form, percent);
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

// A prompt takes over the whole tiles that it shares with an earlier one, and gets the bits of a
// fresh one.
TEST_F(SparseAttention, S2WhatIsTakenOverChangesNoBit) {
  for (const auto& [form, percent] : kForms) {
    Engine engine(options(form, percent));
    for (const size_t n_common : {500, 600, 700, 707, 768, 800}) {
      std::vector<Token> first = tokens(860), second = first;
      for (size_t i = n_common; i < second.size(); ++i) second[i] = (second[i] + 1) % 256;
      second.resize(820);
      const Row wanted = last_logits(options(form, percent), second);
      Session session(engine);
      session.prefill(first);
      EXPECT_GT(session.prefill(second), 0);
      EXPECT_EQ(row(session), wanted) << n_common;
      // The next prompt is shorter, and its last tile has fewer tokens.
      second.resize(n_common + 20);
      session.prefill(second);
      EXPECT_EQ(row(session), last_logits(options(form, percent), second)) << n_common;
    }
  }
}

// A tile that was computed without its beginning is dense and marked as such. A later answer to the
// whole prompt gets the bits of a fresh one.
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
  EXPECT_EQ(session.prefill(prompt), 900 - 640);  // takes over the tiles before
  EXPECT_EQ(row(session), wanted);
}

TEST_F(SparseAttention, S2CompanyChangesNoBit) {
  prepare::Options shared = options();
  shared.prompts.chunk = 128;
  const std::vector<Token> prompts[] = {tokens(700, 700), tokens(640, 640), tokens(930, 930)};
  EXPECT_EQ(test_support::answers_of(shared, prompts, true),
            test_support::answers_of(shared, prompts, false));
}

// In gemma2 every second layer sees a window, and scores are capped. Layers with a window attend to
// all of it, and the others choose by capped scores.
TEST_F(SparseAttention, S2WindowsSeeAllAndCappedScoresChoose) {
  TinyModel model = test_support::tiny_model("gemma2");
  model.context = kLongContext;
  const TinyModelFile file(model);
  const std::vector<Token> prompt = test_support::random_tokens(model, 896, 3);
  const auto rows = [&](AttentionForm form, double percent, int chunk, int n_threads) {
    prepare::Options other = options(form, percent);
    other.model.file = file.path();
    other.prompts.chunk = chunk;
    other.lanes.n_threads = n_threads;
    return last_logits(other, prompt);
  };
  const Row full = rows(AttentionForm::kFull, 0, 128, 1);
  for (const auto& [form, percent] : kForms) {
    const Row wanted = rows(form, percent, 128, 1);
    EXPECT_NE(wanted, full);
    EXPECT_EQ(rows(form, percent, 64, 2), wanted);
    EXPECT_EQ(rows(form, percent, 192, 2), wanted);
  }
  EXPECT_EQ(rows(AttentionForm::kSparse, 100, 128, 1), full);
}

// In gemma2 the first of two layers sees a window, and its heads are shown to nobody. Fixed scales
// stand around the mean of all heads, which these must not move.
TEST_F(SparseAttention, S4HeadsThatSeeAWindowHaveTheMeanScalesOfTheOthers) {
  TinyModel model = test_support::tiny_model("gemma2");
  model.context = kLongContext;
  const TinyModelFile file(model);
  prepare::Options full = options(AttentionForm::kFull);
  full.model.file = file.path();
  Engine engine(full);
  tune::AttentionStatistics statistics(engine.kernels().table, engine.blueprint(), 512, 1);
  for (const float scale : statistics.head_scales()) EXPECT_EQ(scale, 1.0f);  // nothing was seen
  Session session(engine);
  session.watch({.inputs = &statistics});
  session.prefill(test_support::random_tokens(model, 960, 3));
  const std::vector<float> scales = statistics.head_scales();
  const auto n = static_cast<size_t>(model.n_heads);
  ASSERT_EQ(scales.size(), 2 * n * model.n_layers);
  for (size_t of_keys = 0; of_keys < 2; ++of_keys) {
    float mean = 0;
    for (size_t head = n; head < 2 * n; ++head) {
      mean += scales[2 * head + of_keys] / static_cast<float>(n);
    }
    EXPECT_NE(mean, 1.0f);
    for (size_t head = 0; head < n; ++head) {
      EXPECT_NEAR(scales[2 * head + of_keys], mean, 1e-5f * mean);
    }
  }
}

// What measure::EstimateQuality counted.
struct EstimateCounts {
  std::vector<size_t> numbers;
  std::vector<double> recalls, spreads;
  std::vector<measure::SeenByWeight> seen;
  std::vector<measure::KeptByForm> kept;
};

EstimateCounts estimate_counts(const prepare::Options& options, const plan::PromptAttention& of,
                               const std::vector<Token>& prompt) {
  Engine engine(options);
  measure::EstimateQuality quality(engine.kernels().table, of, engine.blueprint().n_heads, 1);
  Session session(engine);
  session.watch({.inputs = &quality});
  session.prefill(prompt);
  EstimateCounts counts;
  for (const measure::QualityOfWay& way : quality.ways()) {
    counts.numbers.insert(counts.numbers.end(),
                          {way.sums.n_queries, way.sums.n_query_values, way.sums.n_key_values,
                           way.sums.n_clipped_of_queries, way.sums.n_clipped_of_keys});
    counts.recalls.insert(counts.recalls.end(), way.sums.recall.begin(), way.sums.recall.end());
  }
  for (const measure::ScaleSpread& spread :
       {quality.spread_of_queries(), quality.spread_of_keys()}) {
    counts.spreads.insert(counts.spreads.end(), {spread.low, spread.middle, spread.high});
  }
  counts.seen = quality.seen_by_weight();
  counts.kept = quality.kept_by_form();
  return counts;
}

// Two lanes that have heads each show them at the same time.
TEST_F(SparseAttention, S1S4LanesThatShareHeadsAreCountedLikeOne) {
  const std::vector<int> cores = usable_core_numbers();
  if (cores.size() < 2) GTEST_SKIP() << "two lanes need two cores";
  const prepare::Options one = options(AttentionForm::kFull);
  prepare::Options two = one;
  two.lanes.n_threads = 0;
  two.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
  two.lanes.cuts = {plan::cut_from_text("attention=heads:0:1,1:1")};
  plan::PromptAttention scales;
  scales.from = 512;
  scales.head_scales.assign(2 * long_model().n_layers * long_model().n_heads, 0.02f);
  const EstimateCounts wanted = estimate_counts(one, scales, tokens(1000));
  EXPECT_GT(wanted.numbers.front(), 0u);
  const EstimateCounts counts = estimate_counts(two, scales, tokens(1000));
  EXPECT_EQ(counts.numbers, wanted.numbers);
  EXPECT_EQ(counts.spreads, wanted.spreads);
  ASSERT_EQ(counts.seen.size(), wanted.seen.size());
  for (size_t i = 0; i < wanted.seen.size(); ++i) {
    EXPECT_EQ(counts.seen[i].mean, wanted.seen[i].mean);
  }
  ASSERT_EQ(counts.kept.size(), wanted.kept.size());
  for (size_t i = 0; i < wanted.kept.size(); ++i) {
    EXPECT_EQ(counts.kept[i].weight.worst, wanted.kept[i].weight.worst);
  }
  ASSERT_EQ(counts.recalls.size(), wanted.recalls.size());
  for (size_t i = 0; i < wanted.recalls.size(); ++i) {
    EXPECT_NEAR(counts.recalls[i], wanted.recalls[i], 1e-6 * wanted.recalls[i]);
  }
}

TEST_F(SparseAttention, S2LowerThresholdsAndLaterTokensSeeMore) {
  plan::PromptAttention usual;
  usual.from = 512;
  const std::vector<measure::SeenByWeight> seen =
      estimate_counts(options(AttentionForm::kFull), usual, tokens(1000)).seen;
  ASSERT_EQ(seen.size(), 4u);
  double before = 0.1;  // the first 16, the 64 close by and a token of at most 960 are more
  for (const measure::SeenByWeight& at : seen) {
    EXPECT_GT(at.mean, before) << at.above;
    EXPECT_LT(at.first, at.last) << at.above;
    EXPECT_LE(at.last, 1.0) << at.above;
    before = at.mean;
  }
  EXPECT_TRUE(estimate_counts(options(AttentionForm::kFull), usual, tokens(500)).seen.empty());
}

// A form that keeps more positions keeps more of their weight.
TEST_F(SparseAttention, S2S8FormsThatKeepMorePositionsKeepMoreWeight) {
  plan::PromptAttention usual;
  usual.from = 512;
  const std::vector<measure::KeptByForm> kept =
      estimate_counts(options(AttentionForm::kFull), usual, tokens(1000)).kept;
  ASSERT_EQ(kept.size(), attention::kKeptForms.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_GT(kept[i].weight.worst, 0.0) << kept[i].name;
    EXPECT_LE(kept[i].weight.worst, kept[i].weight.mean) << kept[i].name;
    EXPECT_LT(kept[i].weight.mean, 1.0) << kept[i].name;
    EXPECT_LE(kept[i].n_diffuse, long_model().n_layers * long_model().n_kv_heads);
    if (i == 0 || attention::kKeptForms[i].by != attention::kKeptForms[i - 1].by) continue;
    EXPECT_GT(kept[i].weight.mean, kept[i - 1].weight.mean) << kept[i].name;
  }
  EXPECT_TRUE(estimate_counts(options(AttentionForm::kFull), usual, tokens(500)).kept.empty());
}

// Before position 512 there is too little to estimate from, whatever the plan says.
TEST_F(SparseAttention, S1NothingIsMeasuredOfTheBeginningOfAText) {
  plan::PromptAttention early;
  early.from = 0;
  const prepare::Options full = options(AttentionForm::kFull);
  EXPECT_EQ(estimate_counts(full, early, tokens(511)).numbers.front(), 0u);
  plan::PromptAttention usual;
  usual.from = 512;
  EXPECT_EQ(estimate_counts(full, early, tokens(700)).numbers,
            estimate_counts(full, usual, tokens(700)).numbers);
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
    prepare::Options share = options();
    share.prompts.attention_share = percent;
    EXPECT_NE(engine_refusal(share).find("‹attention-share›"), std::string::npos);
  }
  for (const double above : {0.0, -3.0, 1e7}) {
    prepare::Options weight = options(AttentionForm::kSparse, kByWeight);
    weight.prompts.attention_above = above;
    EXPECT_NE(engine_refusal(weight).find("‹attention-above›"), std::string::npos);
  }
  prepare::Options both = options();
  both.prompts.attention_above = 3;
  EXPECT_NE(engine_refusal(both).find("Leave one of them out"), std::string::npos);
  for (const int from : {0, 500, 530, -64}) {
    prepare::Options early = options();
    early.prompts.attention_from = from;
    EXPECT_NE(engine_refusal(early).find("‹attention-from›"), std::string::npos);
    early.prompts.attention = AttentionForm::kFull;  // the estimate is measured from there on, too
    early.prompts.attention_share.reset();
    EXPECT_NE(engine_refusal(early).find("‹attention-from›"), std::string::npos);
  }
}

}  // namespace
}  // namespace troika
