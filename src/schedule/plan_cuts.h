// The parts into which a plan divides subgraphs (H3–H7).
#pragma once

#include "plan/plan.h"
#include "schedule/lower.h"

namespace troika::schedule {

// What of a subgraph each lane computes in an executable of this shape, in a form that `lower`
// takes; no parts: it is not divided. Which cut holds is asked of the plan by phase and rows of the
// executable, when it is built (H11).
Parts parts_of(const plan::Plan& plan, const lanes::Subgraph& subgraph, plan::Shape shape);

// Throws Error for cuts of a plan that this model cannot have: of a product that no such subgraph
// has, into parts of fewer than 16 rows or less than a head, or by rows or heads between lanes of
// different numerics classes where the plan does not say so.
void check_cuts(const plan::Plan& plan, const model::Blueprint& blueprint);

}  // namespace troika::schedule
