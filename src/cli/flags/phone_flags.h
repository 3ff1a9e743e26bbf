// Adds the options that concern virtual phones alone.
#pragma once

#include "cli/flags/engine_flags.h"

namespace troika::cli {

void add_phones(Command& command, EngineFlags& flags);

}  // namespace troika::cli
