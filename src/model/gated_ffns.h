// Finds the feed-forward blocks of a model that could be computed by neuron (P1): a gate, an up
// product, their activation and a down product, without biases.
#pragma once

#include <vector>

#include "model/blueprint.h"

namespace troika::model {

struct GatedFfn {
  int layer = kNone;
  WeightId gate = kNone, up = kNone, down = kNone;
  Activation activation = Activation::kSilu;
  bool has_gate_by_neuron = false;  // says that a neuron's row of the gate is read with the neuron
};

// Returns the blocks in the order of the model.
std::vector<GatedFfn> gated_ffns(const Blueprint& blueprint);

// Says whether neurons are dead by the activation itself.
constexpr bool has_dead_neurons(Activation activation) {
  return activation == Activation::kRelu || activation == Activation::kDoubleRelu;
}

}  // namespace troika::model
