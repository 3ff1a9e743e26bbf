// Reads JSON as values of a template.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "jinja/runtime.h"

namespace troika::jinja {

Value from_json_value(Runtime& rt, const nlohmann::ordered_json& json);

}  // namespace troika::jinja
