// An FFN by neurons on a phone, for people and scripts: its plan, and what a run came to.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/engine.h"
#include "measure/simulate.h"

namespace troika::cli {

// Each result is null or empty where the engine has no such plan.
std::string neuron_plan_text(const engine::Engine& engine);
std::string neurons_text(const measure::Simulation& simulation, const engine::Engine& engine);
nlohmann::ordered_json neurons_json(const measure::Simulation& simulation,
                                    const engine::Engine& engine);

}  // namespace troika::cli
