// Writes and reads the neuron plan of this machine in a plan file (P8).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/json_fields.h"
#include "plan/neurons/streamed_neurons.h"

namespace troika::plan {

nlohmann::ordered_json to_json(const StreamedNeurons& neurons);
// Throws Error that names the field, also for a field that is not known.
StreamedNeurons read_streamed_neurons(const JsonFields& fields);

}  // namespace troika::plan
