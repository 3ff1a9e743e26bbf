// Adds the options by which heads of sparse attention go over lanes.
#pragma once

#include "cli/options.h"
#include "prepare/options.h"

namespace troika::cli {

void add_heads(Command& command, prepare::Options& options);

}  // namespace troika::cli
