#include "prepare/streaming/model_disk.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/mapped_file.h"

namespace troika::prepare {

lanes::DiskOptions disk_options(const gguf::File& file, const DiskWay& way) {
  lanes::DiskOptions options;
  options.depth = way.depth;
  options.may_use_io_uring = way.may_use_io_uring;
  options.spoil = way.spoil;
  for (const gguf::File::Shard& shard : file.shards()) {
    TROIKA_ASSERT(shard.map != nullptr);
    options.files.push_back(fmt::format("/proc/self/fd/{}", shard.map->descriptor()));
    options.names.push_back(shard.path);
  }
  return options;
}

}  // namespace troika::prepare
