// Chooses the token counts for which a virtual phone has executables.
#pragma once

#include "plan/plan.h"
#include "prepare/options.h"
#include "solve/place.h"

namespace troika::machines {

// Sets the shapes of executables: those of steps and outputs, and the chunks that are tried.
// REQUIRES: the plan has its context. Throws UsageError for shapes that make no sense.
void set_phone_shapes(const prepare::Options& options, plan::Plan* plan);

// Returns the chunk length of those in `choice` with which prompts of up to the plan's context take
// the least time. REQUIRES: `choice` is for the plan's shapes.
int best_chunk(const solve::PlacementChoice& choice, const plan::Plan& plan);

}  // namespace troika::machines
