// In models with planted attention, tiles keep the share of the positions that was asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "attention/seen_by_weight.h"
#include "base/error.h"
#include "base/random.h"
#include "engine/session.h"
#include "forge/synth.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using forge::AttentionLaw;

constexpr int kPromptLength = 2048;

// Counts what tiles would see of the positions where those go by their weight.
class SeenPositions : public lanes::InputObserver {
 public:
  explicit SeenPositions(const kernels::Table& table) : table_(table) {}
  void observe(const model::Op&, const float*, int, int) override {}
  void observe_attention(const model::Op& op, int /*key_head*/,
                         const attention::Positions& positions, const attention::Queries& queries,
                         size_t n_tokens) override {
    constexpr size_t kTile = attention::kTileTokens;
    if (op.window > 0) return;
    const size_t first = positions.size() - n_tokens;
    ASSERT_EQ(first % kTile, 0u);
    for (size_t t = 0; t + kTile <= n_tokens; t += kTile) {
      if (first + t < static_cast<size_t>(forge::kChoosesFrom)) continue;
      const auto n_seen = attention::seen_by_weight(table_, positions, queries.from(t), first + t,
                                                    plan::PromptAttention::kUsualAbove);
      for (size_t i = 0; i < kTile; ++i) {
        seen_ += static_cast<double>(n_seen[i]);
        all_ += static_cast<double>(first + t + i + 1);
      }
    }
  }
  double share() const { return seen_ / all_; }

 private:
  const kernels::Table& table_;
  double seen_ = 0, all_ = 0;
};

prepare::Options planted_options(const std::string& path) {
  prepare::Options options;
  options.model.file = path;
  options.memory.context = kPromptLength;
  options.lanes.n_threads = 1;
  options.prompts.prefill = plan::Prefill::kQ8;
  options.prompts.attention = plan::AttentionForm::kFull;
  return options;
}

std::vector<text::Token> random_prompt(const Engine& engine, size_t n) {
  std::vector<text::Token> tokens(n);
  const auto n_vocab = static_cast<uint64_t>(engine.blueprint().n_vocab);
  for (size_t i = 0; i < n; ++i) {
    tokens[i] = static_cast<text::Token>(random_bits(5, i) % n_vocab);
  }
  return tokens;
}

double measured_share(const std::string& like, const std::string& type, AttentionLaw law) {
  test::TempFolder folder;
  const std::string path = folder.file("planted.gguf");
  forge::synth({.like = like, .output = path, .type = type, .attention = law});
  Engine engine(planted_options(path));
  Session session(engine);
  SeenPositions seen(engine.kernels().table);
  session.watch({.inputs = &seen});
  session.prefill(random_prompt(engine, kPromptLength - 1));
  return seen.share();
}

// The three differ in heads that share keys, norms of queries and how pairs are rotated.
TEST(PlantedAttention, TilesKeepTheShareThatWasAskedFor) {
  for (const auto& [like, type] : {std::pair("tiny-llama3", "q4_0"), std::pair("tiny-qwen3", "f16"),
                                   std::pair("tiny-phi2", "q8_0")}) {
    for (const double share : {0.25, 0.45}) {
      const double found = measured_share(like, type, {.share = share, .length = kPromptLength});
      EXPECT_NEAR(found, share, 0.2 * share) << like;
    }
  }
}

TEST(PlantedAttention, EveryArchitectureRunsWithIt) {
  test::TempFolder folder;
  const std::string path = folder.file("planted.gguf");
  for (const char* like : {"tiny-llama", "tiny-qwen2", "tiny-gemma", "tiny-gemma2", "tiny-phi2",
                           "tiny-qwen3", "tiny-internlm2", "tiny-phonelm", "tiny-qwen2moe"}) {
    const forge::SynthReport report =
        forge::synth({.like = like, .output = path, .attention = {.share = 0.4, .length = 1536}});
    ASSERT_EQ(report.attention.size(), 1u) << like;
    EXPECT_NEAR(report.attention[0].share, 0.4, 0.1) << like;
    Engine engine(planted_options(path));
    Session session(engine);
    session.prefill(random_prompt(engine, 8));
    for (const float logit : session.logits()) ASSERT_TRUE(std::isfinite(logit)) << like;
  }
}

TEST(PlantedAttention, TheFileDependsOnTheLawAndNotOnTheThreads) {
  test::TempFolder folder;
  const auto made = [&](double share, int n_threads, uint64_t seed) {
    const std::string path = folder.file("planted.gguf");
    forge::synth({.like = "tiny-llama",
                  .output = path,
                  .seed = seed,
                  .attention = {.share = share, .length = 1536},
                  .n_threads = n_threads});
    return test::read_whole(path);
  };
  const std::string usual = made(0.3, 1, 1);
  EXPECT_EQ(made(0.3, 3, 1), usual);
  EXPECT_NE(made(0.5, 1, 1), usual);
  EXPECT_NE(made(0.3, 1, 2), usual);
}

TEST(PlantedAttention, WhatCannotBePlantedIsRefusedInWords) {
  test::TempFolder folder;
  const auto error_of = [&](const std::string& like, AttentionLaw law,
                            forge::SparsityLaw sparsity = {}) {
    return test::message_of<UsageError>([&] {
      forge::synth(
          {.like = like, .output = folder.file("x.gguf"), .sparsity = sparsity, .attention = law});
    });
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  for (const double share : {-0.2, 1.0, 7.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(has(error_of("tiny-llama3", {.share = share, .length = 2048}), "less than 1"))
        << share;
  }
  // The share of a threshold is between what is always kept and what queries can choose.
  for (const double share : {0.001, 0.999}) {
    EXPECT_TRUE(has(error_of("tiny-llama3", {.share = share, .length = 2048}), "tiles keep"))
        << share;
  }
  for (const int length : {-1, 1, 1024, 1 << 30}) {
    EXPECT_TRUE(has(error_of("tiny-llama3", {.share = 0.4, .length = length}), "‹plant-length›"))
        << length;
  }
  EXPECT_TRUE(has(error_of("tiny-phi3", {.share = 0.4, .length = 2048}), "see a window each"));
  EXPECT_TRUE(has(error_of("tiny-llama", {.share = 0.4}), "and not of 512"));
  EXPECT_TRUE(has(error_of("tiny-bamboo", {.share = 0.4, .length = 2048}, {.live = 0.2}),
                  "Make two files"));
  EXPECT_FALSE(std::ifstream(folder.file("x.gguf")).good());
}

}  // namespace
}  // namespace troika
