// The plan that 'troika tune' has kept, where a command may run by it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "plan/plan.h"

namespace troika::cli {

// The plan to begin with, which a line on standard error tells of; empty where there is none or
// another one was asked for. A line also says why one that is there is not used; what it says of
// the scales of heads then goes into `head_scales`.
std::optional<plan::Plan> kept_plan(const EngineFlags& flags, std::vector<float>* head_scales);

// "22 Nov 2026" of "2026-11-22T22:15:00Z"; what cannot be understood stays as it is.
std::string day_of(const std::string& when);

}  // namespace troika::cli
