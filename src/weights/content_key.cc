#include "weights/content_key.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/hash.h"
#include "base/mapped_file.h"

namespace troika::weights {

namespace {

void add_shard(const gguf::File::Shard& shard, Fnv& hash) {
  constexpr size_t kSamples = 64, kSampleBytes = 4096;
  hash.add(uint64_t{shard.bytes.size()});
  struct stat status = {};
  if (shard.map != nullptr && ::fstat(shard.map->descriptor(), &status) == 0) {
    hash.add(static_cast<uint64_t>(status.st_mtim.tv_sec));
    hash.add(static_cast<uint64_t>(status.st_mtim.tv_nsec));
  }
  const auto header =
      static_cast<size_t>(std::min<uint64_t>(shard.data_offset, shard.bytes.size()));
  hash.add(shard.bytes.first(header));
  const std::span<const std::byte> data = shard.bytes.subspan(header);
  for (size_t i = 0; i < kSamples && !data.empty(); ++i) {
    const size_t begin = data.size() / kSamples * i;
    hash.add(data.subspan(begin, std::min(kSampleBytes, data.size() - begin)));
  }
}

}  // namespace

uint64_t content_key(const gguf::File& file) {
  Fnv hash;
  for (const gguf::File::Shard& shard : file.shards()) add_shard(shard, hash);
  return hash.value();
}

}  // namespace troika::weights
