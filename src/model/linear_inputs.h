// Lists the activations that products of prompts read: each once, with all products that read it.
#pragma once

#include <string>
#include <vector>

#include "model/blueprint.h"

namespace troika::model {

struct LinearInput {
  std::string name;  // names the first product's weight, as the file does
  // The products' weights; a lane may compute them one after the other.
  std::vector<WeightId> weights;
  int layer = kNone;
  int width = 0;
};

// Returns, in the order of the model, the inputs of all products but the head. Where attention
// stands between two products of the same activation, they count as two inputs.
std::vector<LinearInput> linear_inputs(const Blueprint& blueprint);

}  // namespace troika::model
