// Counts what blocks that are computed by neuron leave out of a pass (P1): a step reads and
// multiplies the rows and columns of live neurons only.
#pragma once

#include "engine/engine.h"
#include "weights/neurons/source.h"

namespace troika::measure {

struct NotComputed {
  double bytes = 0.0;  // of weights
  double operations = 0.0;
};

// Returns what an engine has computed by neuron until now.
weights::NeuronSource::Computed computed_by_neuron(const engine::Engine& engine);

// Returns what was left out of all that was computed by neuron since `before`, over all tokens.
// What a predictor reads to say so is taken off.
NotComputed not_computed_since(const engine::Engine& engine,
                               const weights::NeuronSource::Computed& before);

}  // namespace troika::measure
