#include "tune/proof/proof.h"

#include <gtest/gtest.h>

#include <cmath>

namespace troika::tune {
namespace {

TEST(Proof, TheLossIsThatOfPerplexityAndItsErrorThatOfTheDifferences) {
  // Hard and easy tokens alike lose 0.01 nats, give or take 0.002 for eight of them at a time.
  std::vector<double> usual, other;
  for (int i = 0; i < 400; ++i) {
    usual.push_back(i % 7);
    other.push_back(usual.back() + 0.01 + (i / 8 % 2 == 0 ? 0.002 : -0.002));
  }
  const Loss loss = loss_between(usual, other);
  EXPECT_EQ(loss.n_tokens, 400u);
  EXPECT_NEAR(loss.share, std::exp(0.01) - 1.0, 1e-9);
  EXPECT_NEAR(loss.error, 0.002 / 7.0 * std::exp(0.01), 1e-6);  // of fifty means
  EXPECT_EQ(loss_between(usual, usual).share, 0.0);
  EXPECT_LT(loss_between(other, usual).share, 0.0);
}

TEST(Proof, OnlyALittleLossThatIsSureIsProven) {
  EXPECT_TRUE(is_proven({1000, 0.0, 0.0}));
  EXPECT_TRUE(is_proven({1000, -0.01, 0.001}));
  EXPECT_TRUE(is_proven({1000, 0.005, 0.0025}));
  EXPECT_FALSE(is_proven({1000, 0.0051, 0.0}));
  EXPECT_FALSE(is_proven({1000, 0.004, 0.004}));
  EXPECT_FALSE(is_proven({1000, NAN, 0.0}));
  EXPECT_FALSE(is_proven({1000, 0.0, NAN}));
  EXPECT_FALSE(is_proven({1000, INFINITY, 0.0}));
}

TEST(Proof, NeighboursThatAreAlikeMakeTheErrorLarger) {
  // Where eight successive differences are equal, only an eighth of them counts.
  std::vector<double> alike, apart;
  for (int i = 0; i < 800; ++i) {
    alike.push_back(i / 8 % 2 == 0 ? 0.0 : 0.002);
    apart.push_back((i % 64 < 32) == (i % 8 < 4) ? 0.0 : 0.002);
  }
  EXPECT_NEAR(mean_loss(alike).share, mean_loss(apart).share, 1e-12);
  EXPECT_NEAR(mean_loss(alike).error, 0.001 / std::sqrt(99.0), 1e-6);
  EXPECT_NEAR(mean_loss(apart).error, 0.0, 1e-6);
  // Few of them are taken singly.
  EXPECT_NEAR(mean_loss({0.0, 0.002}).error, 0.001, 1e-5);
}

TEST(Proof, TheMeanIsThatOfAllDifferences) {
  std::vector<double> differences(64, 0.0);
  differences.insert(differences.end(), 7, 0.071);  // are no whole group
  const Loss loss = mean_loss(differences);
  EXPECT_EQ(loss.n_tokens, 71u);
  EXPECT_NEAR(loss.share, std::exp(0.007) - 1.0, 1e-12);
}

TEST(Proof, TheExpectedLossDecidesAndTheTextMayContradict) {
  const Loss silent = {1000, 0.004, 0.005};  // stands for a text that is too short to tell
  const auto verdict = [&](double expected, double error, const Loss& text) {
    return verdict_of({text, {256, expected, error}}, kMostLoss);
  };
  EXPECT_EQ(verdict(0.0015, 0.0002, silent), LossVerdict::kLittle);
  EXPECT_EQ(verdict(0.016, 0.0003, silent), LossVerdict::kTooMuch);
  EXPECT_EQ(verdict(0.0049, 0.0002, silent), LossVerdict::kUnsure);
  EXPECT_EQ(verdict(0.0051, 0.0002, silent), LossVerdict::kUnsure);
  // The text may go on differently from what the model holds for likely.
  EXPECT_EQ(verdict(0.001, 0.0001, {1000, 0.03, 0.005}), LossVerdict::kTooMuch);
  EXPECT_EQ(verdict(0.001, 0.0001, {1000, -0.03, 0.005}), LossVerdict::kLittle);
  EXPECT_NE(verdict(NAN, 0.0, silent), LossVerdict::kLittle);
  EXPECT_NE(verdict(0.0, 0.0, {1000, NAN, 0.0}), LossVerdict::kLittle);
  EXPECT_EQ(verdict_of({silent, {256, 0.016, 0.0003}}, 0.02), LossVerdict::kLittle);
}

TEST(Proof, FewTokensProveNoLittleLoss) {
  const auto loss = [](size_t n_tokens, double expected) {
    return PromptLoss{{n_tokens, 0.001, 0.002}, {n_tokens / 4, expected, 0.0001}};
  };
  for (const size_t n_tokens : {size_t{10}, size_t{200}, kLeastProofTokens - 1}) {
    EXPECT_EQ(verdict_of(loss(n_tokens, 0.0), kMostLoss), LossVerdict::kUnsure) << n_tokens;
    EXPECT_TRUE(is_too_short(loss(n_tokens, 0.0), kMostLoss)) << n_tokens;
    EXPECT_EQ(verdict_of(loss(n_tokens, 0.016), kMostLoss), LossVerdict::kTooMuch) << n_tokens;
    EXPECT_FALSE(is_too_short(loss(n_tokens, 0.016), kMostLoss)) << n_tokens;
  }
  EXPECT_EQ(verdict_of(loss(kLeastProofTokens, 0.0), kMostLoss), LossVerdict::kLittle);
  EXPECT_FALSE(is_too_short(loss(kLeastProofTokens, 0.0049), kMostLoss));
}

TEST(Proof, AllLengthsCountAlike) {
  const std::vector<PromptTime> plain = {{128, 100.0}, {512, 400.0}};
  const std::vector<PromptTime> faster = {{128, 80.0}, {512, 320.0}};
  const std::vector<PromptTime> mixed = {{128, 50.0}, {512, 800.0}};
  EXPECT_NEAR(times_as_fast(faster, plain), 1.25, 1e-12);
  EXPECT_NEAR(times_as_fast(plain, faster), 0.8, 1e-12);
  EXPECT_NEAR(times_as_fast(mixed, plain), 1.0, 1e-12);
}

}  // namespace
}  // namespace troika::tune
