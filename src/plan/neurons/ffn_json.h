// Writes and reads in a plan file how feed-forward blocks are computed in steps.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/json_fields.h"
#include "plan/plan.h"

namespace troika::plan {

nlohmann::ordered_json to_json(const FfnPlan& ffn);
// Reads the plan's field "ffn". Throws Error that names what is wrong in it.
void read_ffn(const JsonFields& fields, Plan* plan);

}  // namespace troika::plan
