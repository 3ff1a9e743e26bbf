// What a command says of weights that change their layout (D1).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/engine.h"

namespace troika::cli {

// Null where they do not.
nlohmann::ordered_json layouts_json(const engine::Engine& engine);
// Lines for people; empty where they do not.
std::string layouts_text(const engine::Engine& engine);

}  // namespace troika::cli
