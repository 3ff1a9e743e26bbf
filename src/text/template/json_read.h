// JSON as values of a template.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "text/template/runtime.h"

namespace troika::text::jinja {

Value from_json_value(Runtime& rt, const nlohmann::ordered_json& json);

}  // namespace troika::text::jinja
