// Keeps a plan's placements within the memory of its lanes (N9), where no time tells lanes apart.
#pragma once

#include <string>

#include "model/blueprint.h"
#include "plan/plan.h"
#include "weights/store.h"

namespace troika::prepare {

// Leaves plans without limits alone. Otherwise what the plan places on a lane stays there as far as
// its memory goes, and the rest goes to another lane. Throws Error where none has room. Of
// more placements than can be tried it takes the best of those that were, and says nothing of it,
// because only memory counts here.
void place_within_limits(const model::Blueprint& blueprint, const weights::Store& weights,
                         plan::Plan* plan);

// Throws Error where a lane would hold more weights than it may: the plan's file was edited, or
// cuts were asked for. `file` names where the plan is from; empty: from no file.
void check_lane_limits(const model::Blueprint& blueprint, const weights::Store& weights,
                       const plan::Plan& plan, const std::string& file);

}  // namespace troika::prepare
