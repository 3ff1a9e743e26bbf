#include "weights/content_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/mapped_file.h"

namespace troika::weights {

namespace {

// Adds bytes as they stand in the file: a copy of them in memory may have its rows side by side.
void add_bytes(const gguf::File::Shard& shard, size_t begin, size_t n_bytes, Fnv& hash) {
  std::vector<std::byte> bytes(n_bytes);
  const ssize_t n_read = shard.map == nullptr ? -1
                                              : ::pread(shard.map->descriptor(), bytes.data(),
                                                        n_bytes, static_cast<off_t>(begin));
  if (n_read == static_cast<ssize_t>(n_bytes)) {
    hash.add(std::span<const std::byte>(bytes));
  } else {
    hash.add(shard.bytes.subspan(begin, n_bytes));
  }
}

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
  const size_t n_data = shard.bytes.size() - header;
  // The system would read megabytes ahead of each sample, which count for a cgroup's limit.
  const int file = shard.map == nullptr ? -1 : shard.map->descriptor();
  (void)posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
  for (size_t i = 0; i < kSamples && n_data > 0; ++i) {
    const size_t begin = n_data / kSamples * i;
    add_bytes(shard, header + begin, std::min(kSampleBytes, n_data - begin), hash);
  }
  (void)posix_fadvise(file, 0, 0, POSIX_FADV_NORMAL);
}

}  // namespace

uint64_t content_key(const gguf::File& file) {
  Fnv hash;
  for (const gguf::File::Shard& shard : file.shards()) add_shard(shard, hash);
  return hash.value();
}

}  // namespace troika::weights
