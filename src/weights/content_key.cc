#include "weights/content_key.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/hash.h"
#include "base/mapped_file.h"

namespace troika::weights {

namespace {

// Bytes of the file itself: what is mapped may have become a copy in another order.
std::span<const std::byte> sample(const gguf::File::Part& part, size_t at, size_t n_bytes,
                                  std::byte* room) {
  if (part.map != nullptr && ::pread(part.map->descriptor(), room, n_bytes,
                                     static_cast<off_t>(at)) == static_cast<ssize_t>(n_bytes)) {
    return {room, n_bytes};
  }
  return part.bytes.subspan(at, n_bytes);
}

void add_part(const gguf::File::Part& part, Fnv& hash) {
  constexpr size_t kSamples = 64, kSampleBytes = 4096;
  hash.add(uint64_t{part.bytes.size()});
  struct stat status = {};
  if (part.map != nullptr && ::fstat(part.map->descriptor(), &status) == 0) {
    hash.add(static_cast<uint64_t>(status.st_mtim.tv_sec));
    hash.add(static_cast<uint64_t>(status.st_mtim.tv_nsec));
  }
  const auto header = static_cast<size_t>(std::min<uint64_t>(part.data_offset, part.bytes.size()));
  hash.add(part.bytes.first(header));
  const std::span<const std::byte> data = part.bytes.subspan(header);
  for (size_t i = 0; i < kSamples && !data.empty(); ++i) {
    const size_t begin = data.size() / kSamples * i;
    std::byte room[kSampleBytes];
    hash.add(sample(part, header + begin, std::min(kSampleBytes, data.size() - begin), room));
  }
}

}  // namespace

uint64_t content_key(const gguf::File& file) {
  Fnv hash;
  for (const gguf::File::Part& part : file.parts()) add_part(part, hash);
  return hash.value();
}

}  // namespace troika::weights
