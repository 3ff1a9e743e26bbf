// Reckons what lanes of devices take for their own copies of weights, before anything is taken.
#pragma once

#include <cstddef>

#include "model/blueprint.h"
#include "plan/plan.h"
#include "weights/store.h"

namespace troika::prepare {

// Returns about what such a lane's held_bytes() will be: its copies of weights, and what its
// products share. What cores do for it between products is left out, because it is little.
// REQUIRES: the lane is a device.
size_t device_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                    const plan::Plan& plan, int lane);

}  // namespace troika::prepare
