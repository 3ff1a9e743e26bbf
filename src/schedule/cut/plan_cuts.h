// The parts into which a plan divides subgraphs (H3–H7).
#pragma once

#include <span>

#include "plan/plan.h"
#include "schedule/cut/lower.h"

namespace troika::schedule {

// What of a subgraph each lane computes in an executable of this shape, in a form that `lower`
// takes; no parts: it is not divided. Which cut holds is asked of the plan by phase and rows of the
// executable, when it is built (H11).
Parts parts_of(const plan::Plan& plan, const lanes::Subgraph& subgraph, plan::Shape shape);

// Divides a subgraph whose home is a lane by cuts that no plan has yet.
Parts parts_of(std::span<const plan::TensorCut> cuts, const lanes::Subgraph& subgraph,
               plan::Shape shape, int home);
// Lengths divide what multiplies outside the head. Other ops are little work, and stay on the lane
// that the plan places them on.
bool is_divided_by_lengths(const lanes::Subgraph& subgraph);
// The parts that divide it by tokens, as a length does.
Parts parts_of_tokens(const plan::Shares& tokens);

// Whether the lanes compute in one numerics class, so that it makes no difference to the results
// which rows or heads of an op each of them has.
bool share_class(const plan::Plan& plan, int lane, int other);

// Throws Error for cuts of a plan that this model cannot have: of a product that no such subgraph
// has, into parts of fewer than 16 rows or less than a head, or by rows or heads between lanes of
// different numerics classes where the plan does not say so.
void check_cuts(const plan::Plan& plan, const model::Blueprint& blueprint);

}  // namespace troika::schedule
