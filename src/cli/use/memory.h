// What an engine keeps in memory, as `troika plan --explain` and --json show it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/engine.h"

namespace troika::cli {

// A table of the ledger, with the limit and how many slots it leaves.
std::string memory_text(const engine::Engine& engine);
// Tells it with what this process has now; null on a phone.
nlohmann::ordered_json memory_json(const engine::Engine& engine);

// A line for each lane: the weights that it runs with by the plan, and its limit.
std::string held_text(const engine::Engine& engine);

}  // namespace troika::cli
