// Measures what single neurons cost whose weights lie anywhere in memory (P8). A row by itself
// takes longer than its share of a matrix, which is read in order, and a column takes more
// arithmetic.
#pragma once

#include <cstddef>
#include <optional>

#include "base/system.h"
#include "base/threads/team.h"
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
  // Says that the last cache may have held what was timed, so that the times may be too short.
  bool may_be_cached = false;
};

struct MemorySizes {
  size_t last_cache_bytes = troika::last_cache_bytes();
  size_t free_bytes = available_memory_bytes();
};

// Takes a quarter of the free memory, and at most 512 MB: for neurons of which a pass reads twice
// as much as the last cache holds, where so many fit. Returns nothing where hardly any fit. Takes
// some tenths of a second. REQUIRES: some neuron is live.
std::optional<NeuronTimes> measure_neurons(const kernels::Table& kernels,
                                           plan::Activations activations, const NeuronBlock& block,
                                           Team& team, const MemorySizes& memory = {});

}  // namespace troika::measure
