// Reads of parts of a model's files into memory, in whole pages, so that they may go past the page
// cache: it would keep what is needed last, and drop what is needed next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gguf/file.h"
#include "lanes/lane.h"

namespace troika::prepare {

inline constexpr uint64_t kDirectPage = 4096;  // that direct reads ask for

// Bytes of a file, which is mapped too.
struct FilePart {
  const std::byte* begin = nullptr;  // in the map
  size_t bytes = 0;
  int shard = 0;
  uint64_t offset = 0;
  uint64_t shard_bytes = 0;
};

// Where in the files these mapped bytes are. REQUIRES: they are.
FilePart file_part(const gguf::File& file, const std::byte* begin, size_t bytes);

// The memory that it takes at most, wherever in a page it begins.
constexpr size_t room_of(size_t bytes) {
  return (bytes + kDirectPage - 1) / kDirectPage * kDirectPage + kDirectPage;
}
// How far behind the beginning of its room it lies: as far as behind a page in the file.
constexpr size_t lead_of(const FilePart& part) { return part.offset % kDirectPage; }

// Adds the requests that read a part to its room, which begins at a page. Returns their bytes.
uint64_t add_page_reads(const FilePart& part, std::byte* room,
                        std::vector<lanes::ReadRequest>* reads);
// No more requests than that.
size_t most_page_reads(size_t bytes);

// What came through the page cache is not to stay there.
void forget_cached(const gguf::File& file, const FilePart& part);

}  // namespace troika::prepare
