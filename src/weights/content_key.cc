#include "weights/content_key.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/hash.h"

namespace troika::weights {

uint64_t content_key(const gguf::File& file) {
  constexpr size_t kSamples = 64, kSampleBytes = 4096;
  Fnv hash;
  hash.add(file.file_bytes());
  struct stat status = {};
  if (file.descriptor() >= 0 && ::fstat(file.descriptor(), &status) == 0) {
    hash.add(static_cast<uint64_t>(status.st_mtim.tv_sec));
    hash.add(static_cast<uint64_t>(status.st_mtim.tv_nsec));
  }
  const std::span<const std::byte> bytes = file.bytes();
  const auto header = static_cast<size_t>(std::min<uint64_t>(file.data_offset(), bytes.size()));
  hash.add(bytes.first(header));
  const std::span<const std::byte> data = bytes.subspan(header);
  for (size_t i = 0; i < kSamples && !data.empty(); ++i) {
    const size_t begin = data.size() / kSamples * i;
    hash.add(data.subspan(begin, std::min(kSampleBytes, data.size() - begin)));
  }
  return hash.value();
}

}  // namespace troika::weights
