// Sparse attention as tasks of heads on lanes of this machine (S4-S7).
#pragma once

#include "model/blueprint.h"
#include "plan/plan.h"
#include "schedule/head_pipeline.h"

namespace troika::machines {

// The pipeline that a plan asks for; not on where it asks for none. Heads keep what the plan says
// of them; where the estimate has fixed scales, the bucket of a head is the one that is nearest to
// its scales on the calibration text, else all heads have one.
schedule::HeadPipeline heads_here(const plan::Plan& plan, const model::Blueprint& blueprint);
// Whether a policy plans in which order heads run (S7).
bool orders_heads(const plan::Plan& plan);

}  // namespace troika::machines
