// Shows an FFN by neurons on a phone to people and scripts: its plan, and the results of a run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/engine.h"
#include "measure/simulate.h"

namespace troika::cli {

// Each function returns null or an empty text where the engine has no such plan.
std::string neuron_plan_text(const engine::Engine& engine);
std::string neurons_text(const measure::Simulation& simulation, const engine::Engine& engine);
nlohmann::ordered_json neurons_json(const measure::Simulation& simulation,
                                    const engine::Engine& engine);

}  // namespace troika::cli
