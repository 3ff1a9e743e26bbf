// Says how many neurons a run computed of those blocks that it computes by neuron (P1, P3, P12).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/engine.h"

namespace troika::cli {

// Returns a line; empty where no block is computed by neuron on this machine.
std::string by_neuron_text(const engine::Engine& engine);
// Returns null in the same case.
nlohmann::ordered_json by_neuron_json(const engine::Engine& engine);

}  // namespace troika::cli
