// The reference and the engine give the numbers that llama.cpp gives for the tiny models.
// docs/conformance.md says how they were made.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "tests/reference/forward.h"
#include "tests/support/logits.h"
#include "tests/support/tiny_model.h"

namespace troika {
namespace {

constexpr size_t kPositions[] = {0, 7, 39};
constexpr size_t kWatchedTokens[] = {0, 5, 111, 300, 511};
constexpr size_t kPrompt = 8;  // counts tokens before the greedy ones

struct Golden {
  std::string name;
  std::vector<double> logits;  // has each watched token for each position
  std::vector<int> greedy;
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }

const std::vector<Golden>& goldens() {
  static const std::vector<Golden> all = {
#include "tests/golden.inl"
  };
  return all;
}

const test_support::TinyModel& find_model(const std::string& name) {
  static const std::vector<test_support::NamedModel> variants = test_support::tiny_model_variants();
  for (const auto& variant : variants) {
    if (variant.name == name) return variant.model;
  }
  throw std::runtime_error("no tiny model called " + name);
}

// Sums of floats in different orders differ by no more than this part of the largest logit.
constexpr double kGoldenBound = 1e-5;

class GoldenNumbers : public testing::TestWithParam<Golden> {};

void expect_golden(const Golden& golden, const std::vector<reference::Vector>& logits) {
  double largest = 0;
  for (const reference::Vector& row : logits) {
    for (double value : row) largest = std::max(largest, std::abs(value));
  }
  auto expected = golden.logits.begin();
  for (size_t position : kPositions) {
    for (size_t token : kWatchedTokens) {
      EXPECT_NEAR(logits[position][token], *expected++, kGoldenBound * largest)
          << "at position " << position << ", token " << token;
    }
  }
}

TEST_P(GoldenNumbers, AreThoseOfTheReference) {
  const Golden& golden = GetParam();
  const test_support::TinyModel& tiny = find_model(golden.name);
  const std::vector<int> tokens = test_support::random_tokens(tiny, 40);
  const reference::Model model(reference::parse_gguf(test_support::tiny_model_bytes(tiny)));
  expect_golden(golden, reference::forward(model, tokens));
  const std::vector<int> prompt(tokens.begin(), tokens.begin() + kPrompt);
  EXPECT_EQ(reference::greedy(model, prompt, golden.greedy.size()), golden.greedy);
}

TEST_P(GoldenNumbers, AreThoseOfTheEngine) {
  const Golden& golden = GetParam();
  const test_support::TinyModel& tiny = find_model(golden.name);
  const std::vector<int> tokens = test_support::random_tokens(tiny, 40);
  const test_support::TinyModelFile file(tiny);
  engine::Engine engine(file.float_options());
  engine::Session session(engine);
  expect_golden(golden, test_support::engine_logits(session, tokens));

  session.prefill(std::span(tokens).first(kPrompt));
  engine::SamplerOptions most_likely;
  most_likely.temperature = 0;
  engine::Sampler sampler(most_likely);
  std::vector<int> generated;
  while (generated.size() < golden.greedy.size()) generated.push_back(session.next(sampler));
  EXPECT_EQ(generated, golden.greedy);
}

INSTANTIATE_TEST_SUITE_P(Llama, GoldenNumbers, testing::ValuesIn(goldens()), [](const auto& info) {
  std::string name = info.param.name;
  for (char& letter : name) letter = letter == '-' ? '_' : letter;
  return name;
});

TEST(GoldenTable, CoversEveryVariantThatLlamaCppKnows) {
  for (const auto& variant : test_support::tiny_model_variants()) {
    // llama.cpp has no such models, or ignores what sets them apart.
    constexpr const char* kUnknown[] = {"llama-relu", "phi3-window", "turbosparse",
                                        "phonelm",    "bamboo",      "relu-llama"};
    if (std::find(std::begin(kUnknown), std::end(kUnknown), variant.name) != std::end(kUnknown)) {
      continue;
    }
    bool found = false;
    for (const Golden& golden : goldens()) found = found || golden.name == variant.name;
    EXPECT_TRUE(found) << variant.name;
  }
}

}  // namespace
}  // namespace troika
