#include "tune/neurons/sparsity.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "engine/engine.h"
#include "plan/cuts/cuts.h"
#include "plan/plan_json.h"
#include "prepare/plan/saved_plan.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"
#include "tune/default_text.h"

namespace troika::tune {
namespace {

SparsityOptions options_for(const std::string& path) {
  SparsityOptions options;
  options.engine.model.file = path;
  options.engine.lanes.n_threads = 1;
  options.text = std::string(default_text());
  options.most_tokens = 600;
  options.kept = {1.0, 0.5};
  return options;
}

TEST(Sparsity, P12ThresholdsLeaveTheWantedShareLive) {
  test::TempFolder folder;
  const std::string path = folder.file("tiny.gguf");
  test_support::TinyModel model = test_support::tiny_model("llama");
  write_tiny_model(model, path);
  const SparsityReport report = measure_sparsity(options_for(path));
  EXPECT_EQ(report.n_found, 300u);
  EXPECT_EQ(report.n_measured, 299u);
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_EQ(report.rows[0].live, 1.0);
  EXPECT_EQ(report.rows[0].agreement, 1.0);
  EXPECT_EQ(report.rows[0].perplexity, report.perplexity);
  EXPECT_NEAR(report.rows[1].live, 0.5, 0.05);
  EXPECT_NE(report.rows[1].perplexity, report.perplexity);
  EXPECT_EQ(report.rows[1].thresholds.size(), model.n_layers);
  EXPECT_TRUE(report.rows[1].plan.ffn.is_by_neuron());
}

// Perplexities and agreements of a damaged model would be no numbers, or say that all is well.
TEST(Sparsity, AModelThatComputesNoNumbersIsRefused) {
  test::TempFolder folder;
  const std::string path = folder.file("tiny.gguf");
  const std::vector<uint8_t> bytes = tiny_model_bytes(
      test_support::tiny_model("llama"), [](uint32_t*, std::vector<uint8_t>* data, size_t n) {
        const float nan = std::numeric_limits<float>::quiet_NaN();
        if (data->size() == n * sizeof(float)) std::memcpy(data->data(), &nan, sizeof nan);
      });
  test::write_whole(path, std::string(bytes.begin(), bytes.end()));
  const std::string message = test::message_of<Error>([&] { measure_sparsity(options_for(path)); });
  EXPECT_NE(message.find("no numbers"), std::string::npos) << message;
}

// The first token of each window is not predicted, but its activations count.
TEST(Sparsity, P12TokensOfAllWindowsAreCounted) {
  test::TempFolder folder;
  const std::string path = folder.file("tiny.gguf");
  write_tiny_model(test_support::tiny_model("llama"), path);
  SparsityOptions options = options_for(path);
  options.most_tokens = 1100;  // two windows for each half
  options.kept = {1.0};
  const SparsityReport report = measure_sparsity(options);
  EXPECT_EQ(report.n_found, 550u);
  EXPECT_EQ(report.n_measured, 548u);
}

// Lanes that divide tokens would show their activations at the same time.
TEST(Sparsity, P12OneLaneReadsWhatSeveralWouldDivide) {
  test::TempFolder folder;
  const std::string path = folder.file("tiny.gguf");
  write_tiny_model(test_support::tiny_model("llama"), path);
  SparsityOptions options = options_for(path);
  options.engine.lanes.n_threads = 2;
  const SparsityReport usual = measure_sparsity(options);
  options.engine.lanes.n_threads = 0;
  options.engine.lanes.cores = {{{}, 1}, {{}, 1}};
  options.engine.lanes.cuts = {plan::cut_from_text("ffn@2=tokens:0:1,1:1")};
  options.engine.lanes.lengths = {plan::length_from_text("0:150,1:150")};
  const SparsityReport asked = measure_sparsity(options);
  plan::PlanFile divided;
  {
    const engine::Engine engine(options.engine);
    divided = {prepare::plan_identity(engine.file()), engine.plan(), std::nullopt};
  }
  ASSERT_EQ(divided.plan.lanes.size(), 2u);
  ASSERT_FALSE(divided.plan.cuts.empty());
  options = options_for(path);
  options.engine.lanes.n_threads = 0;
  options.engine.plan.file = folder.file("divided.json");
  write_file(options.engine.plan.file, plan::to_json(divided));
  const SparsityReport read = measure_sparsity(options);
  for (const SparsityReport* report : {&asked, &read}) {
    ASSERT_EQ(report->rows.size(), 2u);
    const plan::Plan& plan = report->rows[1].plan;
    EXPECT_EQ(plan.lanes.size(), 1u);
    EXPECT_EQ(plan.n_threads(), 2);
    EXPECT_TRUE(plan.cuts.empty());
    EXPECT_TRUE(plan.lengths.empty());
    EXPECT_EQ(report->rows[1].thresholds, usual.rows[1].thresholds);
    EXPECT_EQ(report->perplexity, usual.perplexity);
  }
}

// All activations of a large model would be gigabytes, so thresholds come of some of them.
TEST(Sparsity, P12ThresholdsOfADrawLeaveTheWantedShareToo) {
  test::TempFolder folder;
  const std::string path = folder.file("tiny.gguf");
  write_tiny_model(test_support::tiny_model("llama"), path);
  SparsityOptions options = options_for(path);
  options.kept = {0.5};
  const SparsityReport all = measure_sparsity(options);
  options.most_magnitudes = 4000;
  const SparsityReport drawn = measure_sparsity(options);
  EXPECT_NE(drawn.rows[0].thresholds, all.rows[0].thresholds);
  EXPECT_NEAR(drawn.rows[0].live, 0.5, 0.05);
  EXPECT_EQ(drawn.perplexity, all.perplexity);
}

TEST(Sparsity, P12WhatCannotBeMeasuredIsRefusedInWords) {
  test::TempFolder folder;
  const std::string path = folder.file("tiny.gguf");
  write_tiny_model(test_support::tiny_model("llama"), path);
  SparsityOptions options = options_for(path);
  options.text = "too short";
  EXPECT_NE(test::message_of<Error>([&] { measure_sparsity(options); }).find("too few"),
            std::string::npos);
  options = options_for(path);
  options.kept = {1.5};
  EXPECT_NE(test::message_of<UsageError>([&] { measure_sparsity(options); }).find("‹keep›"),
            std::string::npos);
}

}  // namespace
}  // namespace troika::tune
