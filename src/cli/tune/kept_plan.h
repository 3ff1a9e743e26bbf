// Finds the plan that 'troika tune' has kept, where a command may run by it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/flags/engine_flags.h"
#include "plan/plan.h"

namespace troika::cli {

// Returns the plan to begin with, and tells of it in a line on standard error. Returns nothing
// where there is none or another plan was asked for. If there is one that is not used, a line says
// why; where an option is the reason, `prompts` gets what the plan knows of the model's heads.
std::optional<plan::Plan> kept_plan(const EngineFlags& flags, prepare::PromptChoice* prompts);
// Gives `prompts` what the kept plan, if there is one, knows of the model's heads: their scales and
// shares. Is for commands that make plans themselves.
void take_heads_of_kept_plan(const EngineFlags& flags, prepare::PromptChoice* prompts);

// Returns "22 Nov 2026" for "2026-11-22T22:15:00Z"; what cannot be understood stays as it is.
std::string day_of(const std::string& when);

}  // namespace troika::cli
