#include "tune/neurons/fit_predictor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernels/choose.h"
#include "tune/neurons/float_rows.h"

namespace troika::tune {
namespace {

constexpr size_t kWidth = 128, kNeurons = 200, kRank = 32;
constexpr size_t kDirections = 12, kScores = 600, kJudged = 600;

const kernels::Table& reference() { return *kernels::implementations().back().table; }

Rows random_rows(uint64_t stream, size_t n, size_t k) {
  Rows rows(n, k);
  for (size_t i = 0; i < rows.values.size(); ++i) {
    double sum = 0.0;
    for (uint64_t part = 0; part < 12; ++part) sum += random_unit(stream, 12 * i + part);
    rows.values[i] = static_cast<float>(sum - 6.0);
  }
  return rows;
}

// Has gates of a rank that is less than the predictor's but for some noise, and inputs as different
// from each other as can be. The first channel is the same in all inputs, and says how rarely a
// neuron is live.
class FitPredictor : public testing::Test {
 protected:
  FitPredictor()
      : gate_(kNeurons, kWidth),
        deviation_(kNeurons),
        inputs_(kDirections + kScores + kJudged, kWidth) {
    inputs_ = random_rows(3, inputs_.n, kWidth);
    for (size_t t = 0; t < inputs_.n; ++t) inputs_.row(t)[0] = 1.0f;
  }
  void make_gates(float noise) {
    constexpr size_t kOwnRank = 24;
    const Rows left = random_rows(1, kNeurons, kOwnRank);
    const Rows right = transposed(random_rows(2, kOwnRank, kWidth));
    gate_ = multiply_rows(reference(), left, right);
    const Rows other = random_rows(4, kNeurons, kWidth);
    for (size_t i = 0; i < kNeurons; ++i) {
      double squares = 0.0;
      for (size_t k = 1; k < kWidth; ++k) {
        gate_.row(i)[k] += noise * std::sqrt(float{kOwnRank}) * other.row(i)[k];
        squares += gate_.row(i)[k] * gate_.row(i)[k];
      }
      deviation_[i] = static_cast<float>(std::sqrt(squares));
      live_above(i, 1.0f);
    }
  }
  // Makes a neuron live where its output is more than so many deviations.
  void live_above(size_t neuron, float deviations) {
    gate_.row(neuron)[0] = -deviations * deviation_[neuron];
  }
  PredictorQuality fit(const LiveRule& rule = {}) const {
    constexpr double kRecall = 0.95;
    const weights::Matrix gate = {tensor::Type::kF32,
                                  reinterpret_cast<const std::byte*>(gate_.values.data()),
                                  kWidth * sizeof(float), kNeurons, kWidth};
    weights::NeuronPredictor predictor({1, kNeurons, kWidth, kRank, tensor::Type::kQ8_0}, kRecall);
    const LayerFit layer = {reference(), gate, rule, kRecall};
    const auto part = [&](size_t first, size_t n) {
      return rows_of(std::span(inputs_.values).subspan(first * kWidth, n * kWidth), kWidth);
    };
    const BlockInputs inputs = {part(0, kDirections), part(kDirections, kScores),
                                part(kDirections + kScores, kJudged)};
    return fit_predictor_layer(layer, inputs, &predictor, 0).quality();
  }

  Rows gate_;
  std::vector<float> deviation_;
  Rows inputs_;
};

// The exact GELU of 2 is 1.95450, and the one by tanh, which runs compute, 1.95460.
TEST_F(FitPredictor, NeuronsLiveByTheActivationThatRunsCompute) {
  make_gates(0.0f);
  for (size_t i = 0; i < kNeurons; ++i) {
    std::fill(gate_.row(i), gate_.row(i) + kWidth, 0.0f);
    gate_.row(i)[0] = 2.0f;  // is the output of every neuron for every token
  }
  EXPECT_EQ(fit({model::Activation::kGelu, 1.95455f}).live, 1.0);
  EXPECT_EQ(fit({model::Activation::kGelu, 1.9547f}).live, 0.0);
}

TEST_F(FitPredictor, P3AFewTokensAreEnoughBecauseWeightsSayTheRest) {
  make_gates(0.0f);
  const PredictorQuality found = fit();
  EXPECT_NEAR(found.live, 0.16, 0.02);
  EXPECT_GT(found.recall, 0.93);
  EXPECT_GT(found.mass, 0.98);
  EXPECT_LT(found.predicted, 1.1 * found.live);
}

TEST_F(FitPredictor, P3WhoIsHardlyEverLiveIsPredictedAsOthersAre) {
  make_gates(0.5f);
  // All are live at about 1 % of the tokens: half of the neurons at fewer than eight of them.
  for (size_t i = 0; i < kNeurons; ++i) live_above(i, 2.2f);
  const PredictorQuality found = fit();
  EXPECT_NEAR(found.live, 0.014, 0.003);
  EXPECT_GT(found.recall, 0.85);
  EXPECT_LT(found.predicted, 4.15 * found.live);  // 2 errors below would be 4.32
}

TEST_F(FitPredictor, P3WhatSaysNothingStillMakesNumbers) {
  const PredictorQuality of_zeros = fit();  // gates of zeros: nobody is live
  EXPECT_EQ(of_zeros.live, 0.0);
  EXPECT_EQ(of_zeros.recall, 1.0);
  make_gates(0.0f);
  for (size_t t = 0; t < kDirections; ++t) {  // the text says nothing
    std::copy_n(inputs_.row(0), kWidth, inputs_.row(t));
  }
  const PredictorQuality found = fit();
  EXPECT_GT(found.recall, 0.93);
  EXPECT_LT(found.predicted, 1.1 * found.live);
}

TEST(FloatRows, LevelsMultiplyAsFloatsDoWhateverTheLength) {
  const Rows a = random_rows(4, 70, 45);  // neither blocks nor groups are full
  const Rows exact = multiply_rows(reference(), a, a), near = LevelRows(reference(), a).times(a);
  for (size_t i = 0; i < exact.values.size(); ++i) {
    EXPECT_NEAR(near.values[i], exact.values[i], 0.5f);
  }
}

TEST(FloatRows, TheInverseOfARootMakesRowsThatHaveNothingInCommon) {
  Rows a = random_rows(5, 20, 33);
  std::copy_n(a.row(0), a.k, a.row(7));  // depends on another one
  std::fill_n(a.row(11), a.k, 0.0f);     // is nothing at all
  const Rows apart =
      multiply_rows(reference(), inverse_of_root(multiply_rows(reference(), a, a)), transposed(a));
  const Rows products = multiply_rows(reference(), apart, apart);
  for (size_t i = 0; i < a.n; ++i) {
    for (size_t j = 0; j < a.n; ++j) {
      EXPECT_NEAR(products.row(i)[j], i == j && i != 7 && i != 11 ? 1.0f : 0.0f, 1e-3f);
    }
  }
}

TEST(FloatRows, RowsBecomeOrthonormalOrNothing) {
  Rows a = random_rows(6, 70, 80);  // more than are made so together
  std::copy_n(a.row(0), a.k, a.row(7));
  std::copy_n(a.row(1), a.k, a.row(66));  // depends on one of others
  std::fill_n(a.row(11), a.k, 0.0f);
  orthonormalize(reference(), &a);
  const Rows products = multiply_rows(reference(), a, a);
  for (size_t i = 0; i < a.n; ++i) {
    const bool is_nothing = i == 7 || i == 11 || i == 66;
    for (size_t j = 0; j < a.n; ++j) {
      EXPECT_NEAR(products.row(i)[j], i == j && !is_nothing ? 1.0f : 0.0f, 1e-3f);
    }
  }
}

}  // namespace
}  // namespace troika::tune
