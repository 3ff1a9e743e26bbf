// Writes and reads the field "int8" of a plan file.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/int8.h"
#include "plan/json_fields.h"

namespace troika::plan {

nlohmann::ordered_json to_json(const Int8Plan& int8);
// Reads from the object that `fields` is. Throws Error that names file and field.
Int8Plan read_int8(const JsonFields& fields);

}  // namespace troika::plan
