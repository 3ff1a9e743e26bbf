// The feed-forward blocks of a plan that are computed by neuron (P1), made ready.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "model/gated_ffns.h"
#include "plan/plan.h"
#include "weights/store.h"

namespace troika::prepare {

// Those that the plan computes by neuron; empty: none. Throws UsageError where the model has none
// that could be, or none of whose neurons are ever dead.
std::vector<model::GatedFfn> neuron_blocks(const model::Blueprint& blueprint,
                                           const plan::Plan& plan);

// What their copies take beside the file's matrices, which prompts read.
size_t neuron_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                    const plan::Plan& plan);

// Gives them to the store. Returns what people should know; empty: there are none.
std::string place_neurons(const model::Blueprint& blueprint, const plan::Plan& plan,
                          const ProgressFunction& progress, weights::Store* weights);

}  // namespace troika::prepare
