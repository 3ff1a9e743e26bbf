// Adds the options by which generation computes and reads only the neurons that fire.
#pragma once

#include "cli/options.h"
#include "prepare/options.h"

namespace troika::cli {

void add_neuron_flags(Command& command, prepare::Options& options);

}  // namespace troika::cli
