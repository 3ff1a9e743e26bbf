// The parts into which a plan divides subgraphs (H3–H7).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "schedule/cut/lower.h"

namespace troika::schedule {

// Returns what each lane computes of a subgraph in an executable of this shape, in a form that
// `lower` takes; no parts: the subgraph is not divided. Which cut holds follows from the
// executable's phase and rows, when it is built (H11).
RangeCut range_cut_of(const plan::Plan& plan, const lanes::Subgraph& subgraph, plan::Shape shape);

// Divides a subgraph that lives on lane `home` by cuts that no plan has yet.
RangeCut range_cut_of(std::span<const plan::TensorCut> cuts, const lanes::Subgraph& subgraph,
                      plan::Shape shape, int home);
// Returns the cuts that hold for a subgraph in an executable of this shape, in their order. Plans
// may have thousands of cuts, so this is asked once and not for each op.
std::vector<const plan::TensorCut*> cuts_for(std::span<const plan::TensorCut> cuts,
                                             const lanes::Subgraph& subgraph, plan::Shape shape);
// Returns the first of these that is of an op; null: none is.
const plan::TensorCut* cut_of(std::span<const plan::TensorCut* const> holding,
                              const model::Blueprint& blueprint, const model::Op& op);
// Says whether these shares divide a product of so many rows. One with which a lane would have
// fewer than 16 rows stays whole where a cut is of all products, and a cut of it alone is refused.
bool divides_rows(int n_rows, const plan::Shares& rows);
// Says whether lengths divide a subgraph: those that multiply, but not the head. Other ops are
// little work, and stay on the lane where the plan places them.
bool is_divided_by_lengths(const lanes::Subgraph& subgraph);
// Returns the parts that divide a subgraph by tokens, as a length does.
RangeCut range_cut_of_tokens(const plan::Shares& tokens);

// Returns what people call a lane's processor: "host", "npu" or "opencl:0".
std::string processor_text(const plan::PlannedLane& lane);
// Names the class of lanes of cores.
inline constexpr const char* kHostClass = "host";
// Returns the numerics class of a lane in executables of a phase; no phase: in those of both. Lanes
// of one class give the same bits. Lanes of cores and of phones compute with the kernels of this
// program. In which phases a device has their bits its kind says (plan/device.h). What else a
// device computes is as its own driver does it, so each device has a class of its own.
std::string class_of(const plan::Plan& plan, int lane_index, std::optional<plan::Phase> phase);
// Says whether two lanes compute in one numerics class in executables of a phase, so that results
// do not depend on which rows or heads of an op each of them has; no phase: of both.
bool share_class(const plan::Plan& plan, int lane, int other, std::optional<plan::Phase> phase);
// Says whether a lane may have some tokens of an executable while other lanes have the rest. A lane
// with floats of its own may not, because results would depend on which tokens it has.
bool may_divide_tokens(const plan::Plan& plan, int lane, plan::Phase phase);

// Throws Error for cuts of a plan that this model cannot have: of a product that no subgraph has,
// into parts of fewer than 16 rows or less than a head, or, unless the plan allows it, by rows or
// heads between lanes of different numerics classes.
void check_cuts(const plan::Plan& plan, const model::Blueprint& blueprint);

}  // namespace troika::schedule
