// What a command says of blocks that are read while others compute (P10).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/engine.h"

namespace troika::cli {

// Null where memory has all blocks.
nlohmann::ordered_json streaming_json(const engine::Engine& engine);
// A line for people; empty where memory has all blocks.
std::string streaming_text(const engine::Engine& engine);

}  // namespace troika::cli
