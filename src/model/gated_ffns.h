// Finds the feed-forward blocks of a model that could be computed by neuron (P1): a gate, an up
// product, their activation and a down product, without biases. In a mixture each expert is such a
// block (P3).
#pragma once

#include <vector>

#include "model/blueprint.h"

namespace troika::model {

struct GatedFfn {
  int layer = kNone;
  WeightId gate = kNone, up = kNone, down = kNone;
  Activation activation = Activation::kSilu;
  bool has_gate_by_neuron = false;  // says that a neuron's row of the gate is read with the neuron
  int expert = kNone;               // the number of the expert; kNone: every token takes the block
  int n_experts = 1;  // counts the experts whose rows each weight holds, one after the other

  bool is_expert() const { return expert != kNone; }
};

// Returns the blocks that every token takes, in the order of the model.
std::vector<GatedFfn> gated_ffns(const Blueprint& blueprint);
// Returns the experts of all mixtures, in the order of the model. Those of one mixture follow each
// other.
std::vector<GatedFfn> expert_ffns(const Blueprint& blueprint);
// Returns what a model computes by neuron: the blocks that every token takes, or the experts where
// there are none. Experts beside other blocks stay as they are.
std::vector<GatedFfn> neuron_ffns(const Blueprint& blueprint);

// Says whether neurons are dead by the activation itself.
constexpr bool has_dead_neurons(Activation activation) {
  return activation == Activation::kRelu || activation == Activation::kDoubleRelu;
}

}  // namespace troika::model
