// Declares the parts of idle_flags.cc: each looks at the flags of one thing, and says which of them
// can do nothing in a run.
#pragma once

#include <functional>
#include <string>

#include "cli/flags/engine_flags.h"
#include "engine/engine.h"

namespace troika::cli {

// Says a sentence where the flag of this name was given.
using Say = std::function<void(const char* name, const std::string& why)>;

// Looks at rules of --place that no executable follows.
void say_of_places(const std::vector<plan::Placement>& rules, const engine::Engine& engine,
                   const Say& say);
// Looks at flags of a virtual phone, and at those of this machine that no phone reads.
void say_of_phone(const EngineFlags& flags, const engine::Engine& engine, const Say& say);
// Looks at flags of this machine's prompts: attention, int8, copies of weights.
void say_of_prompts(const plan::Plan& plan, const Say& say);
// Returns a sentence where the stage of --neurons does not differ from others, or from the one
// before it; empty: it does. `options` made the engine.
std::string idle_stage(const EngineFlags& flags, const prepare::Options& options,
                       const engine::Engine& engine);
// Looks at flags of neurons and experts of this machine. `options` made the engine.
void say_of_neurons(const EngineFlags& flags, const prepare::Options& options,
                    const engine::Engine& engine, const Say& say);

}  // namespace troika::cli
