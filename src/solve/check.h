// Checks how good predictions are: some shapes are held out and predicted from the rest.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/profile.h"

namespace troika::solve {

// How far predictions of one op on one lane lie from measurements that they did not know.
struct CheckRow {
  int lane = 0;
  model::OpKind op = model::OpKind::kLinear;
  int n_known = 0;
  int n_held_out = 0;
  // The errors are shares of the measured time.
  double tree_median = 0.0;
  double tree_worst = 0.0;
  double rate_median = 0.0;
  double rate_worst = 0.0;
  plan::OpShape worst;         // the worst shape of the method used for this op
  double median_spread = 0.0;  // the spread of the measurements themselves
};

// Holds out a seeded third of the shapes (with all their token counts, so that a prediction never
// knows a neighbour of the same shape) and predicts them from the rest.
std::vector<CheckRow> check_predictions(const plan::Profile& profile, uint64_t seed);

}  // namespace troika::solve
