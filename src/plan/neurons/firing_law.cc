#include "plan/neurons/firing_law.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace troika::plan {

std::vector<double> firing_shares(const FiringLaw& law, int n_neurons) {
  TROIKA_ASSERT(n_neurons > 0);
  std::vector<double> shares(static_cast<size_t>(n_neurons));  // for c = 1, without a limit
  for (int i = 0; i < n_neurons; ++i) {
    shares[static_cast<size_t>(i)] = std::pow((i + 0.5) / n_neurons, -law.power);
  }
  const auto mean_at = [&](double c) {
    double sum = 0.0;
    for (const double share : shares) sum += std::min(law.most, c * share);
    return sum / n_neurons;
  };
  // The mean grows with c. It is too small where none is limited, and as large as it may be where
  // all are. The logarithm of c is bisected, because a steep law makes c very small.
  double sum = 0.0;
  for (const double share : shares) sum += share;
  double low = law.live_share * n_neurons / sum, high = law.most / shares.back();
  for (int i = 0; i < 60; ++i) {
    const double middle = std::sqrt(low) * std::sqrt(high);
    (mean_at(middle) < law.live_share ? low : high) = middle;
  }
  for (double& share : shares) share = std::min(law.most, high * share);
  return shares;
}

}  // namespace troika::plan
