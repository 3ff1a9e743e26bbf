#include "solve/predict.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "solve/check.h"
#include "solve/profile/op_shapes.h"

namespace troika::solve {
namespace {

using model::OpKind;
using plan::OpShape;
using plan::OpTime;
using plan::Profile;

OpShape product(int n_rows, int k, int n_tokens) {
  return {OpKind::kLinear, tensor::Type::kQ4_0, n_rows, k, n_tokens, 0, 0};
}

// Returns the times that a law gives for many products.
template <typename Law>
std::vector<OpTime> times_of(const Law& law) {
  std::vector<OpTime> times;
  for (const OpShape& shape : grid_shapes(tensor::Type::kQ4_0, tensor::Type::kF16)) {
    if (shape.op == OpKind::kLinear) times.push_back({0, shape, law(shape), 0.0, 5});
  }
  return times;
}

// A matrix unit works in stages of 32 tokens and reads wide weights badly.
double staged_us(const OpShape& shape) {
  OpShape whole = shape;
  whole.n_tokens = (shape.n_tokens + 31) / 32 * 32;
  const double penalty = shape.k > 2 * shape.n_rows ? 1.8 : 1.0;
  return 4.0 + penalty * plan::op_flops(whole) / 4e5;
}

Profile profile_of(std::vector<OpTime> times) {
  Profile profile;
  profile.lanes = {{"matrix", {}, 1, true}};
  profile.starts = {{0, 4.0}};
  profile.ops = std::move(times);
  return profile;
}

TEST(FitRate, FindsTheRateBehindTimes) {
  const Rate truth = {5.0, 1.2e4, 3e5};
  const std::vector<OpTime> times =
      times_of([&](const OpShape& shape) { return truth.predict_us(shape); });
  const Rate found = fit_rate(times, 4.0);
  for (const OpTime& time : times) {
    EXPECT_NEAR(found.predict_us(time.shape) / time.us, 1.0, 0.03);
  }
  EXPECT_NEAR(found.bytes_per_us / truth.bytes_per_us, 1.0, 0.05);
  EXPECT_NEAR(found.flops_per_us / truth.flops_per_us, 1.0, 0.05);
}

TEST(FitRate, OneTimeIsEnough) {
  const OpShape shape = product(512, 512, 1);
  EXPECT_NEAR(fit_rate({{0, shape, 40.0, 0.0, 3}}, 0.0).predict_us(shape), 40.0, 1.0);
}

OpShape embedding(int n_tokens) {
  return {OpKind::kEmbed, tensor::Type::kQ8_0, 896, 0, n_tokens, 0, 0};
}

// A profile that had no time for more has one time of each kind, and any start fits it.
TEST(FitRate, OneTimeIsAllStartThatWasMeasured) {
  const Rate rate = fit_rate({{0, embedding(1), 13e3, 0.0, 3}}, 12e3);
  EXPECT_NEAR(rate.predict_us(embedding(1)), 13e3, 100.0);
  EXPECT_GT(rate.fixed_us, 0.9 * 12e3);
  EXPECT_LE(rate.fixed_us, 12e3);
  // What is left of the one token's time, and not all of it, is taken for each of the others.
  EXPECT_LT(rate.predict_us(embedding(512)), 0.2 * 512 * 13e3);
  // A start that is longer than the op was measured in another moment.
  const Rate disturbed = fit_rate({{0, embedding(1), 10.0, 0.0, 3}}, 50.0);
  EXPECT_NEAR(disturbed.predict_us(embedding(1)), 10.0, 0.1);
  EXPECT_LT(disturbed.predict_us(embedding(512)), 0.1 * 512 * 10.0);
}

TEST(FitRate, TwoSizesTellTheStartFromTheWork) {
  const Rate truth = {12.0, 4e3, 1e9};
  std::vector<OpTime> times;
  for (const int n_tokens : {1, 512}) {
    times.push_back({0, embedding(n_tokens), truth.predict_us(embedding(n_tokens)), 0.0, 3});
  }
  const Rate rate = fit_rate(times, 11.0);
  for (const int n_tokens : {1, 8, 64, 512, 2048}) {
    const OpShape shape = embedding(n_tokens);
    EXPECT_NEAR(rate.predict_us(shape) / truth.predict_us(shape), 1.0, 0.1) << n_tokens;
  }
}

TEST(CostPredictor, H9_AMeasuredShapeGivesItsTime) {
  const CostPredictor predictor(profile_of(times_of(staged_us)));
  const OpShape shape = product(256, 2048, 13);
  EXPECT_EQ(predictor.predict_us(0, shape), staged_us(shape));
  EXPECT_LT(predictor.added_us(0, shape), predictor.predict_us(0, shape));
  EXPECT_GT(predictor.added_us(0, shape), 0.0);
}

TEST(CostPredictor, H9_TheTreeKnowsStagesThatARateDoesNot) {
  const std::vector<CheckRow> rows = check_predictions(profile_of(times_of(staged_us)), 1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_GT(rows[0].n_held_out, 20);
  EXPECT_GT(rows[0].n_known, rows[0].n_held_out);
  EXPECT_LT(rows[0].tree_median, 0.15);
  EXPECT_LT(rows[0].tree_median, rows[0].rate_median);
}

// Every weight has a speed of its own, which no other weight tells. So a good prediction here would
// have seen the weight that it predicts.
TEST(CostPredictor, H9_TheErrorIsOfShapesThatWereNotSeen) {
  const auto whimsical_us = [](const OpShape& shape) {
    const double whim = random_unit(static_cast<uint64_t>(shape.n_rows), shape.k);
    return 5.0 + plan::op_flops(shape) / 1e5 * std::exp2(4.0 * whim - 2.0);
  };
  std::vector<OpTime> times;
  constexpr int kTokens[] = {1, 2, 4, 8, 16, 32, 64, 128};
  for (int n_rows = 256; n_rows <= 8192; n_rows *= 2) {
    for (int k = 256; k <= 8192; k *= 2) {
      for (const int n_tokens : kTokens) {
        const OpShape shape = product(n_rows, k, n_tokens);
        times.push_back({0, shape, whimsical_us(shape), 0.0, 5});
      }
    }
  }
  const Profile profile = profile_of(times);
  for (const uint64_t seed : {1, 2, 3}) {
    const std::vector<CheckRow> rows = check_predictions(profile, seed);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].n_known + rows[0].n_held_out, static_cast<int>(times.size()));
    // Either all token counts of a weight are held out, or none.
    EXPECT_EQ(rows[0].n_held_out % static_cast<int>(std::size(kTokens)), 0);
    EXPECT_GT(rows[0].n_held_out, 0);
    EXPECT_GT(rows[0].tree_median, 0.25);
    EXPECT_GE(rows[0].tree_worst, rows[0].tree_median);
  }
}

TEST(CostPredictor, MoreWorkNeverTakesMuchLess) {
  // The law grows, but a tree may fall a little between its leaves.
  const Rate law = {3.0, 9e3, 2e5};
  const CostPredictor predictor(
      profile_of(times_of([&](const OpShape& shape) { return law.predict_us(shape); })));
  for (const int n_rows : {300, 1200, 5000}) {
    double before = 0.0;
    for (int n_tokens = 1; n_tokens <= 1024; n_tokens *= 2) {
      const double us = predictor.estimate_us(0, product(n_rows, 1024, n_tokens));
      EXPECT_GT(us, 0.95 * before);
      before = us;
    }
  }
  // Far beyond what was measured, the last rate still holds.
  const OpShape huge = product(150000, 8192, 512);
  EXPECT_NEAR(predictor.estimate_us(0, huge) / law.predict_us(huge), 1.0, 0.1);
}

TEST(CostPredictor, SaysWhatItDoesNotKnow) {
  EXPECT_THROW(CostPredictor{profile_of({})}, Error);
  const CostPredictor predictor(profile_of(times_of(staged_us)));
  const OpShape norm = {OpKind::kRmsNorm, tensor::Type::kF32, 64, 64, 1, 0, 0};
  EXPECT_THROW(predictor.predict_us(0, norm), Error);
  // The times of another element type are better than nothing.
  OpShape other = product(512, 512, 4);
  other.type = tensor::Type::kQ8_0;
  EXPECT_GT(predictor.predict_us(0, other), 0.0);
}

}  // namespace
}  // namespace troika::solve
