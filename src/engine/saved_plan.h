// Plans in files: made for one model and one machine, and refused for others.
#pragma once

#include <string>

#include "gguf/file.h"
#include "plan/plan_json.h"

namespace troika::engine {

// This machine and this model file: size, and a hash of everything before the weights.
plan::PlanFor plan_identity(const gguf::File& file);

// Throws Error for a file that is no plan, one made for another model or machine, and one that
// names cores this process may not use.
plan::Plan load_plan(const std::string& path, const gguf::File& file);

}  // namespace troika::engine
