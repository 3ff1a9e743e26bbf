// Shows what an engine keeps in memory, for `troika plan --explain` and --json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/engine.h"

namespace troika::cli {

// Returns a table of the ledger, with the limit and how many slots it leaves.
std::string memory_text(const engine::Engine& engine);
// Returns the ledger and what this process has now; null on a phone.
nlohmann::ordered_json memory_json(const engine::Engine& engine);
// Adds what every answer of `run` tells of memory: the peak, what is kept, layouts and reads.
void add_memory(const engine::Engine& engine, nlohmann::ordered_json* json);

// Returns a line for each lane: the weights that it runs with by the plan, and its limit.
std::string held_text(const engine::Engine& engine);

}  // namespace troika::cli
