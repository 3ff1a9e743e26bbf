// Computes the angles by which a position rotates each pair of a head, with every known way of
// stretching the context.
#pragma once

#include <span>
#include <vector>

#include "model/blueprint.h"

namespace troika::model {

// Holds the angles of all rotations of a model, one behind the other.
class RopeAngles {
 public:
  // Makes the angles for contexts of `context` tokens.
  RopeAngles(std::span<const Rope> ropes, int context);

  int n_pairs() const { return static_cast<int>(pairs_.size()); }
  // Writes n_pairs cosines and sines for one position, multiplied by the pairs' magnitudes.
  void fill(int position, float* cos, float* sin) const;

 private:
  struct Pair {
    double frequency;  // radians per position
    double magnitude;
  };
  std::vector<Pair> pairs_;
};

// Returns where the pairs of a rotation begin among those of all rotations.
int first_pair_of(std::span<const Rope> ropes, int index);

}  // namespace troika::model
