// Shows what weights that change their layout did (D1).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/engine.h"

namespace troika::cli {

// Returns null where no weights change.
nlohmann::ordered_json layouts_json(const engine::Engine& engine);
// Returns lines for people; empty where no weights change.
std::string layouts_text(const engine::Engine& engine);

}  // namespace troika::cli
