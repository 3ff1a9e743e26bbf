// Sparse attention as tasks of heads on lanes of this machine (S4-S7).
#pragma once

#include "model/blueprint.h"
#include "plan/plan.h"
#include "schedule/head_pipeline.h"

namespace troika::machines {

// Returns the pipeline that a plan asks for; it is off where the plan asks for none. Heads keep the
// shares of the plan. Where the estimate has fixed scales, the bucket of a head is the one nearest
// to its scales on the calibration text; else all heads have one bucket.
schedule::HeadPipeline heads_here(const plan::Plan& plan, const model::Blueprint& blueprint);
// Says whether a policy plans the order in which heads run (S7): not on one lane, and not in lock
// step, where lanes wait for each other at every step.
bool orders_heads(const plan::Plan& plan);

}  // namespace troika::machines
