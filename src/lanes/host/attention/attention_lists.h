// The memory that attention takes on a host lane as texts grow, reckoned before they do.
#pragma once

#include <cstddef>

#include "model/blueprint.h"
#include "plan/plan.h"

namespace troika::lanes {

// Returns the most bytes that segments and lists of attention take on a lane, or on the cores of a
// lane that is a device, for texts of at most n_positions positions. They come to what
// host_scratch_bytes() counts, and a lane takes them when texts need them.
size_t attention_list_bytes(const model::Blueprint& blueprint, const plan::Plan& plan, int lane,
                            size_t n_positions);

}  // namespace troika::lanes
