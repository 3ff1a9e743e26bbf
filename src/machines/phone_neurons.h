// A model larger than a phone's memory: its feed-forward parts go by neurons, of which some are in
// memory and the others on the flash (P). The planner is in plan_neurons.h.
#pragma once

#include <memory>

#include "lanes/virtual/neurons/neuron_work.h"
#include "machines/neuron_tasks.h"
#include "model/blueprint.h"
#include "plan/plan.h"
#include "weights/store.h"

namespace troika::machines {

// Returns the shape of the model's neurons. Throws UsageError for a model unless each block has a
// feed-forward part of gate, up and down of one size, and nothing beside it.
lanes::NeuronShape neuron_shape(const model::Blueprint& blueprint, const weights::Store& weights,
                                double predictor_rank_share);

// Returns the lanes of a plan, and the flash behind them.
NeuronLanes neuron_lanes(const plan::Plan& plan);

class PhoneNeurons {
 public:
  // REQUIRES: the plan has neurons. The model must outlive it.
  PhoneNeurons(const lanes::CostModel& model, const lanes::NeuronShape& shape,
               const plan::Plan& plan)
      : work_(model, shape, *plan.neurons), tasks_(work_, neuron_lanes(plan)) {}

  const lanes::NeuronWork& work() const { return work_; }
  lanes::NeuronWork& work() { return work_; }
  const schedule::FfnTasks& tasks() const { return tasks_; }
  // Returns the policy that decides what lanes do next in steps.
  schedule::Policy& policy() { return policy_; }

 private:
  lanes::NeuronWork work_;
  NeuronTasks tasks_;
  FirstReady policy_;
};

}  // namespace troika::machines
