#include "prepare/streaming/page_reads.h"

#include <fcntl.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/mapped_file.h"

namespace troika::prepare {
namespace {

// Limits the bytes of a request. A part is divided, so that the disk has several requests at once.
constexpr uint64_t kRequestBytes = uint64_t{1} << 20;

}  // namespace

FileRange file_range(const gguf::File& file, const std::byte* begin, size_t bytes) {
  for (size_t i = 0; i < file.shards().size(); ++i) {
    const std::span<const std::byte> shard = file.shards()[i].bytes;
    if (begin < shard.data() || begin >= shard.data() + shard.size()) continue;
    return {begin, bytes, static_cast<int>(i), static_cast<uint64_t>(begin - shard.data()),
            shard.size()};
  }
  TROIKA_ASSERT(false);
  return {};
}

uint64_t add_page_reads(const FileRange& part, std::byte* room,
                        std::vector<lanes::ReadRequest>* reads) {
  const uint64_t begin = part.offset - lead_of(part);
  const uint64_t end = part.offset + part.bytes;
  const uint64_t page_end = (end + kDirectPage - 1) / kDirectPage * kDirectPage;
  // The last page of a file may be a part of one only, which cannot be read directly.
  const uint64_t whole_end = std::min(page_end, part.shard_bytes / kDirectPage * kDirectPage);
  for (uint64_t at = begin; at < whole_end; at += kRequestBytes) {
    reads->push_back(
        {part.shard, at, std::min(kRequestBytes, whole_end - at), room + (at - begin)});
  }
  const uint64_t rest = std::max(begin, whole_end);
  if (end > rest) reads->push_back({part.shard, rest, end - rest, room + (rest - begin)});
  return std::max(end, whole_end) - begin;
}

size_t most_page_reads(size_t bytes) { return room_of(bytes) / kRequestBytes + 2; }

void forget_mapped(const gguf::File& file, const std::byte* begin, size_t bytes) {
  for (const gguf::File::Shard& shard : file.shards()) {
    const std::byte* const first = shard.bytes.data();
    if (begin < first || begin >= first + shard.bytes.size()) continue;
    if (shard.map == nullptr || shard.map->has_copies()) return;
    const auto offset = static_cast<size_t>(begin - first);
    // The page cache keeps pages that a process has mapped, so these go first.
    shard.map->let_go({offset, offset + bytes});
    (void)posix_fadvise(shard.map->descriptor(), static_cast<off_t>(offset),
                        static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
    return;
  }
}

void forget_mapped(const gguf::File& file) {
  for (const gguf::File::Shard& shard : file.shards()) {
    forget_mapped(file, shard.bytes.data(), shard.bytes.size());
  }
}

void forget_cached(const gguf::File& file, const FileRange& part) {
  const MappedFile& map = *file.shards()[static_cast<size_t>(part.shard)].map;
  (void)posix_fadvise(map.descriptor(), static_cast<off_t>(part.offset),
                      static_cast<off_t>(part.bytes), POSIX_FADV_DONTNEED);
}

}  // namespace troika::prepare
