// Finds the plan that 'troika tune' has kept, where a command may run by it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "plan/plan.h"

namespace troika::cli {

// Returns the plan to begin with, and tells of it in a line on standard error. Returns nothing
// where there is none or another plan was asked for. If there is one that is not used, a line says
// why; where an option is the reason, the plan's scales of heads go into `head_scales`.
std::optional<plan::Plan> kept_plan(const EngineFlags& flags, std::vector<float>* head_scales);

// Returns "22 Nov 2026" for "2026-11-22T22:15:00Z"; what cannot be understood stays as it is.
std::string day_of(const std::string& when);

}  // namespace troika::cli
