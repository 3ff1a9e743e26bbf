// Shows how blocks were read while others were computed (P10).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/engine.h"

namespace troika::cli {

// Returns null where memory has all blocks.
nlohmann::ordered_json streaming_json(const engine::Engine& engine);
// Returns a line for people; empty where memory has all blocks.
std::string streaming_text(const engine::Engine& engine);

}  // namespace troika::cli
