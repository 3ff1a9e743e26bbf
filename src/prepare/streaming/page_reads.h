// Plans reads of parts of a model's files in whole pages, so that they may go past the page cache.
// The page cache would keep what is needed last, and drop what is needed next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gguf/file.h"
#include "lanes/lane.h"

namespace troika::prepare {

inline constexpr uint64_t kDirectPage = 4096;  // the alignment that direct reads need

// Bytes of a file, which is mapped too.
struct FileRange {
  const std::byte* begin = nullptr;  // points into the map
  size_t bytes = 0;
  int shard = 0;
  uint64_t offset = 0;
  uint64_t shard_bytes = 0;
};

// Returns where in the files mapped bytes lie. REQUIRES: they lie in one of them.
FileRange file_range(const gguf::File& file, const std::byte* begin, size_t bytes);

// Returns the memory that a part needs at most, wherever in a page it begins.
constexpr size_t room_of(size_t bytes) {
  return (bytes + kDirectPage - 1) / kDirectPage * kDirectPage + kDirectPage;
}
// Returns how far behind the beginning of its room a part lies: as far as it begins behind a page's
// beginning in the file.
constexpr size_t lead_of(const FileRange& part) { return part.offset % kDirectPage; }

// Adds the requests that read a part to its room, which begins at a page. Returns their bytes.
uint64_t add_page_reads(const FileRange& part, std::byte* room,
                        std::vector<lanes::ReadRequest>* reads);
// Returns the most requests that a part of this number of bytes may take.
size_t most_page_reads(size_t bytes);

// Gives back what was read of a matrix through the map of its file, and of whole files: the pages
// of this process, and what the page cache keeps of them. Does nothing where the bytes are in no
// map, or something of the file was copied into memory.
void forget_mapped(const gguf::File& file, const std::byte* begin, size_t bytes);
void forget_mapped(const gguf::File& file);

// Drops from the page cache what a part's reads may have left there.
void forget_cached(const gguf::File& file, const FileRange& part);

}  // namespace troika::prepare
