// Writes and reads the neuron plan of a plan file (P8).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/json_fields.h"
#include "plan/phones/neuron_plan.h"

namespace troika::plan {

nlohmann::ordered_json to_json(const NeuronPlan& plan);
// Throws Error that names the field.
NeuronPlan read_neurons(const JsonFields& fields);

}  // namespace troika::plan
