// Runs an op on the workers of a host lane.
#pragma once

#include "lanes/host/op_context.h"

namespace troika::lanes {

// Computes the share of an op that falls to one worker. `index` is the op's place in its
// executable.
void run_op(const BoundOp& bound, const OpContext& context, int index, int worker);

}  // namespace troika::lanes
