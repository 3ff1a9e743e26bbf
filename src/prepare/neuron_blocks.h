// The feed-forward blocks of a plan that are computed by neuron (P1), made ready.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "model/gated_ffns.h"
#include "plan/plan.h"
#include "weights/neurons/neurons.h"
#include "weights/store.h"

namespace troika::prepare {

// Those that the plan computes by neuron; empty: none. Throws UsageError where the model has none
// that could be, or none of whose neurons are ever dead.
std::vector<model::GatedFfn> neuron_blocks(const model::Blueprint& blueprint,
                                           const plan::Plan& plan);

// Their matrices that are read by neuron: of the up and the down product, and the gates where they
// are too.
std::vector<model::WeightId> neuron_matrices(std::span<const model::GatedFfn> ffns);

// Returns what copies of neurons take beside the file's matrices, which prompts read.
size_t neuron_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                    const plan::Plan& plan);

// Says which neurons are dead, as the plan has it, and gives them to the store.
void set_neurons(const plan::Plan& plan, std::unique_ptr<weights::Neurons> neurons,
                 std::unique_ptr<weights::NeuronPredictor> predictor, weights::Store* weights);

// Gives them to the store, all in memory. Returns what people should know; empty: there are none.
std::string place_neurons(const model::Blueprint& blueprint, const plan::Plan& plan,
                          std::unique_ptr<weights::NeuronPredictor> predictor,
                          const ProgressFunction& progress, weights::Store* weights);

}  // namespace troika::prepare
