// Says that an option of a command does nothing in a run.
#pragma once

#include <string>

#include "cli/options.h"

namespace troika::cli {

// Notes on standard error that the option does nothing here, and why, if it was given and is idle.
void note_idle_option(const Command& command, const std::string& name, bool is_idle,
                      const std::string& why);

}  // namespace troika::cli
