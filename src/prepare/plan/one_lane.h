// Puts a run on one lane, for whoever looks at values in the order of the text: lanes that divide
// tokens show them at the same time.
#pragma once

#include "plan/plan.h"
#include "prepare/options.h"

namespace troika::prepare {

// Makes one lane of all lanes of cores, and takes away what divides or places work.
void put_on_one_lane(plan::Plan* plan);
// Changes what is asked for in the same way. REQUIRES: no plan to begin with.
void put_on_one_lane(Options* options);

}  // namespace troika::prepare
