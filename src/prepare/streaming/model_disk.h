// Finds the files of a model for a lane that reads them again.
#pragma once

#include "gguf/file.h"
#include "lanes/disk/disk_lane.h"

namespace troika::prepare {

// Returns the files that were checked, whatever takes their names later. REQUIRES: they are mapped.
lanes::DiskOptions disk_options(const gguf::File& file);

}  // namespace troika::prepare
