// The mixtures of experts of a model: the products that each has, and what stands before its
// router.
#pragma once

#include <cstddef>
#include <vector>

#include "model/blueprint.h"

namespace troika::model {

struct Mixture {
  int layer = kNone;
  std::vector<WeightId> products;  // of experts, each the rows of all of them, in order of the ops
  // Ops of the blueprint: what chooses experts, what it chooses by, and the norm whose output that
  // reads; kNone: another op makes it.
  int route = kNone;
  int router = kNone;
  int norm = kNone;
};

// Returns them in the order of the model.
std::vector<Mixture> mixtures(const Blueprint& blueprint);

}  // namespace troika::model
