// Plans how a model runs whose neurons are more than this machine's memory is to hold (P8): it
// gathers what is known of neurons, memory, disk and processors, and lets solve/ choose.
#pragma once

#include "measure/profile_here.h"
#include "plan/profile.h"
#include "prepare/options.h"

namespace troika::tune {

struct NeuronPlanRequest {
  // A limit of memory must be given. What is asked for of form, predictor, gates, pins, pipeline
  // and gap replaces a choice; without ‹neuron-predictor› none is chosen, as it changes answers.
  prepare::Options options;
  // Is planned with; null: the kept profile, after measuring what it lacks.
  const plan::Profile* profile = nullptr;
  double budget_s = 8.0;      // the time to measure what a profile lacks
  bool keeps_profile = true;  // false: what is measured now may be wrong at another time
};

// Throws UsageError for options that neurons cannot be planned with, before anything is read.
void check_neuron_request(const prepare::Options& options);

// Returns the options of the request, with the form, the predictor and the gates that were chosen,
// with the plan of neurons, and with what the process held before it planned. Throws UsageError for
// requests that make no sense here, Error where the budget is too small, or the profile has no
// disk.
prepare::Options plan_neurons_here(const NeuronPlanRequest& request,
                                   const measure::StageFunction& stage);

}  // namespace troika::tune
