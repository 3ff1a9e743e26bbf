// The activations that products of prompts read: each once, with all products that read it.
#pragma once

#include <string>
#include <vector>

#include "model/blueprint.h"

namespace troika::model {

struct LinearInput {
  std::string name;               // of the weight of the first product, as in the file
  std::vector<WeightId> weights;  // of the products, which a lane may compute one after the other
  int layer = kNone;
  int width = 0;
};

// Returns, in the order of the model, the inputs of all products but the head. Where attention
// stands between two products of the same activation, they count as two inputs.
std::vector<LinearInput> linear_inputs(const Blueprint& blueprint);

}  // namespace troika::model
