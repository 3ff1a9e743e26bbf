// Reckons what lanes of devices take for their own copies of weights, before anything is taken.
#pragma once

#include <cstddef>

#include "model/blueprint.h"
#include "plan/plan.h"
#include "weights/store.h"

namespace troika::prepare {

// Returns about what such a lane's held_bytes() will be: its copies of weights, what its products
// share, what runs bring along, and what its cores need for experts. What cores do for it between
// products is left out, because it is little; lists of attention are, because they grow with texts.
// REQUIRES: the lane is a device.
size_t device_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                    const plan::Plan& plan, int lane);

// Returns the most bytes that a lane takes for lists that kernels of attention read, for one text
// of at most n_positions positions. A lane takes them when texts need them. Texts that take steps
// together have their lists one behind the other, and take more; they are few bytes for a position.
size_t device_list_bytes(const plan::PlannedLane& lane, size_t n_positions);

}  // namespace troika::prepare
