#include "tune/proof/kept_odds.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/choose.h"

namespace troika::tune {
namespace {

constexpr size_t kVocabulary = 300;

std::vector<float> logits_of(float sharpness, float noise) {
  std::vector<float> logits(kVocabulary);
  for (size_t i = 0; i < kVocabulary; ++i) {
    logits[i] = sharpness * std::sin(0.7f * static_cast<float>(i)) +
                noise * std::cos(1.3f * static_cast<float>(i));
  }
  return logits;
}

double log_sum_of(const std::vector<float>& logits) {
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  return std::log(sum);
}

// Computes the divergence by its definition, in double precision.
double divergence_of(const std::vector<float>& kept, const std::vector<float>& other) {
  const double kept_sum = log_sum_of(kept), other_sum = log_sum_of(other);
  double sum = 0.0;
  for (size_t i = 0; i < kept.size(); ++i) {
    const double log_odds = kept[i] - kept_sum;
    sum += std::exp(log_odds) * (log_odds - (other[i] - other_sum));
  }
  return sum;
}

class KeptOddsTest : public ::testing::Test {
 protected:
  double measured(const std::vector<float>& kept, const std::vector<float>& other) {
    odds_.keep({kept, log_sum_of(kept), 0.0});
    return odds_.divergence(odds_.size() - 1, {other, log_sum_of(other), 0.0});
  }

  const kernels::Kernels kernels_ = kernels::choose(detect_cpu_features(), "");
  KeptOdds odds_{kernels_.table};
};

TEST_F(KeptOddsTest, IsTheDivergenceByItsDefinition) {
  for (const float sharpness : {0.5f, 3.0f, 9.0f}) {
    for (const float noise : {0.02f, 0.2f, 2.0f}) {
      const std::vector<float> kept = logits_of(sharpness, 0.0f),
                               other = logits_of(sharpness, noise);
      const double plain = divergence_of(kept, other);
      EXPECT_NEAR(measured(kept, other), plain, 0.02 * plain + 2e-6) << sharpness << " " << noise;
    }
  }
}

TEST_F(KeptOddsTest, TheSameOddsAreNoLossAndOddsThatWentElsewhereAre) {
  const std::vector<float> kept = logits_of(6.0f, 0.0f);
  EXPECT_NEAR(measured(kept, kept), 0.0, 1e-5);
  std::vector<float> shifted = kept;  // has the same odds
  for (float& logit : shifted) logit += 5.0f;
  EXPECT_NEAR(measured(kept, shifted), 0.0, 1e-5);
  // One hundredth of all odds goes to a token that was never expected.
  std::vector<float> elsewhere = kept;
  elsewhere[6] = static_cast<float>(log_sum_of(kept) + std::log(0.01 / 0.99));
  EXPECT_NEAR(measured(kept, elsewhere), divergence_of(kept, elsewhere), 2e-4);
  EXPECT_GT(measured(kept, elsewhere), 0.005);
}

}  // namespace
}  // namespace troika::tune
