// Shows people how neurons were planned on this machine (P8).
#pragma once

#include <string>

#include "plan/plan.h"

namespace troika::cli {

// Returns an empty text where nothing was planned.
std::string streamed_neurons_text(const plan::Plan& plan);

}  // namespace troika::cli
