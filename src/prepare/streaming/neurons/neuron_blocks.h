// Makes ready the feed-forward blocks that a plan computes by neuron (P1).
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

// Throws UsageError where blocks are to go by neuron and the model has no block that could, or no
// block has neurons that are ever dead.
void check_neuron_blocks(const model::Blueprint& blueprint, const plan::FfnPlan& ffn);

// Returns the blocks that the plan computes by neuron; empty: none. Throws as the check does.
std::vector<model::GatedFfn> neuron_blocks(const model::Blueprint& blueprint,
                                           const plan::Plan& plan);

// Returns the matrices of these blocks that are read by neuron: those of the up and the down
// product, and the gates where the plan reads them by neuron too.
std::vector<model::WeightId> neuron_matrices(std::span<const model::GatedFfn> ffns);

// Returns what copies of neurons take beside the file's matrices, which prompts read.
size_t neuron_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                    const plan::Plan& plan);

// Returns the bytes of the matrices that the plan's hot neurons have, a part of neuron_bytes().
size_t hot_neuron_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                        const plan::Plan& plan);
// Returns the bytes of buffers for what hot neurons compute.
size_t hot_buffer_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                        const plan::Plan& plan);

// Sets which neurons count as dead, as the plan says, and which are hot, as the store says, and
// gives them to the store.
void set_neurons(const plan::Plan& plan, std::unique_ptr<weights::Neurons> neurons,
                 std::unique_ptr<weights::NeuronPredictor> predictor, weights::Store* weights);

// Makes the plan's neurons in memory and gives them to the store. Returns a note; empty: none.
std::string place_neurons(const model::Blueprint& blueprint, const plan::Plan& plan,
                          std::unique_ptr<weights::NeuronPredictor> predictor,
                          const ProgressFunction& progress, weights::Store* weights);

}  // namespace troika::prepare
