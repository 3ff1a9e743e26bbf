// The law of how often the neurons of an FFN fire. Planted models and phones without weights share
// it.
#pragma once

#include <vector>

namespace troika::plan {

// The neurons stand at places q from 0 to 1, the most frequent first. The neuron at q fires with
// the probability min(most, c * q^-power), where c makes the mean `live_share`. The form is that of
// pf024 and pf028.
struct FiringLaw {
  double live_share = 0.15;
  double power = 0.7;
  double most = 0.98;
};

// Returns the share of tokens at which each neuron fires, the most frequent first. REQUIRES:
// n_neurons > 0.
std::vector<double> firing_shares(const FiringLaw& law, int n_neurons);

}  // namespace troika::plan
