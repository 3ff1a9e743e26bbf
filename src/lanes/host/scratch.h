// The memory that a host lane takes beside buffers and weights, reckoned before its executables are
// built.
#pragma once

#include <cstddef>

#include "model/blueprint.h"
#include "plan/plan.h"

namespace troika::lanes {

// Returns at least what HostLane::held_bytes() will be, and little more. What attention takes as
// texts grow is left out (attention_lists.h). `guesses_experts` says that steps guess which experts
// the next mixture takes.
size_t host_scratch_bytes(const model::Blueprint& blueprint, const plan::PlannedLane& lane,
                          const plan::Plan& plan, bool guesses_experts = false);

// Returns the bytes of lists that parts of sparse attention take on a lane, where heads are tasks
// of their own (S6) and see at most n_positions positions.
size_t head_list_bytes(const model::Blueprint& blueprint, const plan::Plan& plan, int lane,
                       size_t n_positions);

}  // namespace troika::lanes
