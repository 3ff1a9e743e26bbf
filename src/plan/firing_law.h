// How often the neurons of an FFN fire: the law that planted models and phones without weights
// share.
#pragma once

#include <vector>

namespace troika::plan {

// The neuron at place q of 0 to 1, the most frequent first, fires with min(most, c * q^-power); c
// makes the mean `live_share`. The form is that of pf024 and pf028.
struct FiringLaw {
  double live_share = 0.15;
  double power = 0.7;
  double most = 0.98;
};

// The share of tokens at which each neuron fires, the most frequent first. REQUIRES: n_neurons > 0.
std::vector<double> firing_shares(const FiringLaw& law, int n_neurons);

}  // namespace troika::plan
