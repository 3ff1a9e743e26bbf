// The offline planner of PowerInfer-2 (P8): from what neurons do, the storage and the processors to
// a neuron plan and a hardware plan.
#pragma once

#include "lanes/virtual/virtual_phone.h"
#include "machines/phone_neurons.h"
#include "prepare/options.h"

namespace troika::machines {

// A number of hot neurons that the planner looked at, for people.
struct NeuronCandidate {
  int n_sequences = 1;
  plan::HotNeurons hot;
  double block_us = 0.0;  // of a step, attention included
};

struct NeuronChoiceMade {
  std::vector<NeuronCandidate> candidates;
  double read_once_us = 0.0, read_twice_us = 0.0;  // of one neuron, K30
};

// Where memory and reads stand, without hot neurons. Throws Error where the budget has no room for
// what must stay.
plan::NeuronPlan neuron_budget(const prepare::Options& options, const lanes::NeuronShape& shape,
                               const lanes::CostModel& model, uint64_t kv_bytes,
                               NeuronChoiceMade* made);

// How many hot neurons let a step take least time, for each number of sequences, found by running
// a few blocks on a phone of the same kind. `plan` has its neurons, lanes and placements.
void choose_hot(const lanes::CostModel& model, const lanes::PhoneOptions& phone,
                const lanes::NeuronShape& shape, const model::Blueprint& blueprint,
                const weights::Store& weights, plan::Plan* plan, NeuronChoiceMade* made);

}  // namespace troika::machines
