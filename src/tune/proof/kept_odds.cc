#include "tune/proof/kept_odds.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/half.h"

namespace troika::tune {

void KeptOdds::keep(const measure::Prediction& prediction) {
  std::vector<uint16_t> row;
  row.reserve(prediction.logits.size());
  for (const float logit : prediction.logits) {
    const auto log_odds = static_cast<float>(logit - prediction.log_sum);
    row.push_back(tensor::f32_to_f16(std::max(log_odds, -tensor::kMaxF16)));
  }
  rows_.push_back(std::move(row));
}

double KeptOdds::divergence(size_t position, const measure::Prediction& prediction) {
  TROIKA_ASSERT(position < rows_.size());
  const std::vector<uint16_t>& row = rows_[position];
  const size_t n = row.size();
  TROIKA_ASSERT(n == prediction.logits.size());
  kept_.resize(n);
  odds_.resize(n);
  for (size_t i = 0; i < n; ++i) kept_[i] = tensor::f16_to_f32(row[i]);
  exp_(kept_.data(), odds_.data(), n);
  // Rounded odds do not sum up to 1, so they are divided by their sum.
  double sum = 0.0, differences = 0.0;
  for (size_t i = 0; i < n; ++i) {
    if (odds_[i] <= 0.0f) continue;
    const double other = prediction.logits[i] - prediction.log_sum;
    sum += odds_[i];
    differences += odds_[i] * (kept_[i] - other);
  }
  return std::max(0.0, differences / sum - std::log(sum));
}

}  // namespace troika::tune
