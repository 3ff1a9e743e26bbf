// The angles by which a position turns each pair of a head, with every known way of stretching
// the context.
#pragma once

#include <span>
#include <vector>

#include "model/blueprint.h"

namespace troika::model {

class RopeAngles {
 public:
  explicit RopeAngles(const Rope& rope);

  int n_pairs() const { return static_cast<int>(frequencies_.size()); }
  // Writes n_pairs cosines and sines for one position; the magnitude of yarn is contained.
  void fill(int position, float* cos, float* sin) const;

 private:
  std::vector<double> frequencies_;  // radians per position
  double magnitude_ = 1.0;
};

}  // namespace troika::model
