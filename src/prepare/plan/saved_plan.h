// Loads plans from files. A plan is made for one model and one machine, and refused for others.
#pragma once

#include <string>

#include "gguf/file.h"
#include "plan/plan_json.h"

namespace troika::prepare {

// Identifies the model file (size, and a hash of everything before the weights) on a machine: this
// one, or what a virtual phone calls itself.
plan::PlanFor plan_identity(const gguf::File& file, const std::string& machine = {});

// Throws Error for a file that is no plan, a plan for another model or machine, and one that names
// cores which this process may not use. `advice` ends the messages; empty: how to make one again.
plan::PlanFile load_plan(const std::string& path, const plan::PlanFor& here,
                         const std::string& advice = {});

// Refuses processors and parts of a virtual phone, which a plan for this machine that was edited by
// hand may name. Throws Error.
void check_is_here(const std::string& path, const plan::Plan& plan);

}  // namespace troika::prepare
