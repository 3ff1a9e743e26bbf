// Serves `troika plan --choose` and `--compare`: the plan that the profile of this machine speaks
// for, and whether it is as fast as predicted.
#pragma once

#include "cli/flags/engine_flags.h"
#include "tune/choose_plan.h"

namespace troika::cli {

// Prints what is predicted of each candidate, and which is chosen. `like`, if not null, has the
// precisions and the calibration for all candidates.
tune::PlanChoice choose_and_print(const EngineFlags& flags, const std::vector<int>& prompts,
                                  const plan::Plan* like);

// Runs every candidate, in turn, n_turns times, and prints how the chosen one compares with the
// best that has a single lane. Another one is chosen where runs show it to be faster.
void compare_and_print(const EngineFlags& flags, const std::vector<int>& prompts, int n_turns,
                       tune::PlanChoice* choice);

}  // namespace troika::cli
