// Describes the hot neurons of feed-forward blocks as products of their own (P1): what they add is
// computed densely, wherever a lane likes to, and a block's output is that and what the other
// neurons add.
#pragma once

#include <span>
#include <vector>

#include "model/blueprint.h"
#include "model/gated_ffns.h"

namespace troika::model {

struct HotFfn {
  GatedFfn whole;                                   // the block, in weights of the model
  WeightId gate = kNone, up = kNone, down = kNone;  // what hot neurons have of them
  // The gate, the product beside it, their activation, and the product behind it, whose output is
  // what hot neurons add.
  std::vector<Op> ops;
  // Adds that to what the other neurons add, and does what stands behind the block in its layer.
  std::vector<Op> join;
};

struct HotBlueprint {
  // Has the values and weights of the model, with the same numbers, and behind them those of hot
  // neurons. Its ops are those of hot neurons alone.
  Blueprint blueprint;
  std::vector<HotFfn> ffns;
};

// Makes products of the first n_hot[i] neurons of the i-th block.
HotBlueprint with_hot_neurons(const Blueprint& model, std::span<const GatedFfn> ffns,
                              std::span<const int> n_hot);

}  // namespace troika::model
