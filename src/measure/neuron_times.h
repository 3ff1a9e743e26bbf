// Measures what single neurons cost whose weights lie anywhere in memory (P8). A row by itself
// takes longer than its share of a matrix, which is read in order, and a column takes more
// arithmetic.
#pragma once

#include <optional>

#include "base/team.h"
#include "kernels/kernels.h"
#include "plan/plan.h"
#include "weights/store.h"

namespace troika::measure {

// A block that is computed by neuron. Of its matrices only types and sizes count.
struct NeuronBlock {
  weights::Matrix gate, up, down;
  double live = 0.0;  // the share of its neurons that a token needs
};

// The times of a neuron's row of the gate, of its row of the product before the activation, and of
// its column of the product behind it: those of all neurons, of which workers compute several at
// once, over their number.
struct NeuronTimes {
  double gate_us = 0.0, up_us = 0.0, down_us = 0.0;
};

// Returns nothing where memory is too short for more neurons than caches hold: a quarter of what is
// free, and at most 512 MB. Takes some tenths of a second. REQUIRES: some neuron is live.
std::optional<NeuronTimes> measure_neurons(const kernels::Table& kernels,
                                           plan::Activations activations, const NeuronBlock& block,
                                           Team& team);

}  // namespace troika::measure
