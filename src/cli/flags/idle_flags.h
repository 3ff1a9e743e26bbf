// Finds flags that can do nothing in a run. Whoever gives a flag expects something of it, so that
// silence would mislead.
#pragma once

#include <string>
#include <vector>

#include "cli/flags/engine_flags.h"
#include "engine/engine.h"

namespace troika::cli {

// Returns the first flag of the command line that is for a virtual phone; empty: there is none.
std::string given_phone_flag(const EngineFlags& flags);

// Throws UsageError for flags about a phone where there is none, and for flags about this machine's
// prompts on a phone.
void refuse_idle_flags(const EngineFlags& flags);

// Returns a sentence for each flag that this engine's plan leaves without effect. The engine was
// made from `options`, which may hold a kept plan.
std::vector<std::string> idle_flags(const EngineFlags& flags, const prepare::Options& options,
                                    const engine::Engine& engine);

// Returns a sentence for each rule of --place, or of a stage of llm.npu, that the memory of a lane
// breaks.
std::vector<std::string> broken_rules(const EngineFlags& flags, const engine::Engine& engine);

}  // namespace troika::cli
