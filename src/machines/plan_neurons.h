// The offline planner of PowerInfer-2 (P8): it makes a neuron plan and a hardware plan from what
// neurons do, the storage and the processors.
#pragma once

#include "lanes/virtual/virtual_phone.h"
#include "machines/phone_neurons.h"
#include "prepare/options.h"

namespace troika::machines {

// A number of hot neurons that the planner tried, shown to people.
struct NeuronCandidate {
  int n_sequences = 1;
  plan::HotNeurons hot;
  double block_us = 0.0;  // the time of a step in a block, attention included
};

struct NeuronChoiceMade {
  std::vector<NeuronCandidate> candidates;
  double read_once_us = 0.0, read_twice_us = 0.0;  // the time of reading one neuron (K30)
};

// Plans memory and reads, still without hot neurons. Throws Error where the budget has no room for
// what must stay.
plan::NeuronPlan neuron_budget(const prepare::Options& options, const lanes::NeuronShape& shape,
                               const lanes::CostModel& model, uint64_t kv_bytes,
                               NeuronChoiceMade* made);

// Chooses, for each number of sequences, how many hot neurons let a step take the least time, by
// running a few blocks on a phone of the same kind. `plan` already has its neurons, lanes and
// placements.
void choose_hot(const lanes::CostModel& model, const lanes::PhoneOptions& phone,
                const lanes::NeuronShape& shape, const model::Blueprint& blueprint,
                const weights::Store& weights, plan::Plan* plan, NeuronChoiceMade* made);

}  // namespace troika::machines
