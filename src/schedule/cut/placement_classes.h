// Says whether results depend on how many tokens go together, because lanes of different numerics
// classes run a subgraph in different shapes.
#pragma once

#include "model/blueprint.h"
#include "plan/plan.h"

namespace troika::schedule {

// Throws Error where a subgraph, or a product of it, has lanes of different numerics classes in
// executables whose results must be alike: of one phase, or of both where they compute alike. What
// a rule or a cut with mixes_classes holds for is not compared.
void check_placements(const plan::Plan& plan, const model::Blueprint& blueprint);

}  // namespace troika::schedule
