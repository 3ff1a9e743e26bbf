// Finds the files of a model for a lane that reads them again.
#pragma once

#include "gguf/file.h"
#include "lanes/disk/disk_lane.h"

namespace troika::prepare {

// How a stream asks the disk. Tests ask otherwise.
struct DiskWay {
  int depth = 64;  // counts reads under way at once
  bool may_use_io_uring = true;
  decltype(lanes::DiskOptions::spoil) spoil = {};
};

// Returns the files that were checked, whatever takes their names later. REQUIRES: they are mapped.
lanes::DiskOptions disk_options(const gguf::File& file, const DiskWay& way = {});

}  // namespace troika::prepare
