// Writes and reads the cuts and lengths of a plan's file (docs/plan.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/json_fields.h"
#include "plan/plan.h"

namespace troika::plan {

// Writes nothing where the plan has neither cuts nor lengths.
void write_cuts(const Plan& plan, nlohmann::ordered_json* json);
// Reads "cuts" and "lengths", which may be left out. REQUIRES: the plan has its lanes.
void read_cuts(const JsonFields& fields, Plan* plan);

}  // namespace troika::plan
