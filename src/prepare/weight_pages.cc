#include "prepare/weight_pages.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/huge_pages.h"
#include "base/mapped_file.h"
#include "base/system.h"
#include "base/threads/team.h"

namespace troika::prepare {
namespace {

// Smaller files stay in the processor's caches, where the size of pages matters less.
constexpr size_t kLeastBytes = size_t{32} << 20;

constexpr double kMb = 1e6;

size_t mapped_bytes(const gguf::File& file) {
  size_t bytes = 0;
  for (const gguf::File::Shard& shard : file.shards()) {
    if (shard.map != nullptr) bytes += shard.bytes.size();
  }
  return bytes;
}

// Returns which of these ranges lie in a shard.
std::vector<MappedFile::Range> ranges_of(std::span<const weights::FileRead> ranges, size_t shard) {
  std::vector<MappedFile::Range> own;
  for (const weights::FileRead& range : ranges) {
    if (static_cast<size_t>(range.shard) != shard) continue;
    own.push_back({range.offset, range.offset + range.bytes});
  }
  return own;
}

// Returns the gaps between ranges of one shard that are worth huge pages. The header is no gap.
std::vector<MappedFile::Range> gaps_between(const gguf::File::Shard& shard,
                                            std::vector<MappedFile::Range> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  ranges.push_back({shard.bytes.size(), shard.bytes.size()});
  std::vector<MappedFile::Range> gaps;
  size_t at = shard.data_offset;
  for (const MappedFile::Range& range : ranges) {
    if (range.begin >= at + kHugePageBytes) gaps.push_back({at, range.begin});
    at = std::max(at, range.end);
  }
  return gaps;
}

// Returns the parts of a shard that are copied where some of it is read by nobody: all but the huge
// pages that lie within such a range.
std::vector<MappedFile::Range> copied_parts(const gguf::File::Shard& shard,
                                            std::vector<MappedFile::Range> unread) {
  std::sort(unread.begin(), unread.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::vector<MappedFile::Range> parts = {{0, shard.bytes.size()}};
  for (const MappedFile::Range& range : unread) {
    const size_t begin = (range.begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    const size_t end = range.end / kHugePageBytes * kHugePageBytes;
    if (begin >= end) continue;
    parts.back().end = begin;
    parts.push_back({end, shard.bytes.size()});
  }
  return parts;
}

WeightPages copy(const gguf::File& file, std::span<const weights::FileRead> unread) {
  Team team(usable_cores());  // how many cores the engine will use does not matter yet
  const RealClock clock;
  const double start_us = clock.now_us();
  size_t bytes = 0, wanted = 0, huge = 0;
  for (size_t i = 0; i < file.shards().size(); ++i) {
    const gguf::File::Shard& shard = file.shards()[i];
    const std::vector<MappedFile::Range> parts = copied_parts(shard, ranges_of(unread, i));
    for (const MappedFile::Range& part : parts) wanted += part.end - part.begin;
    bytes += shard.map->copy_into_memory(team, parts);
    huge += huge_bytes_within(shard.bytes.data(), shard.bytes.size());
  }
  WeightPages pages;
  pages.seconds = 1e-6 * (clock.now_us() - start_us);
  pages.is_copied = bytes > 0;
  pages.text = fmt::format(
      "{:.0f} MB copied into memory in {:.2f} s, {:.0f} MB of them in huge "
      "pages",
      bytes / kMb, pages.seconds, huge / kMb);
  if (bytes < wanted) pages.text += "; no memory for the rest, which stays mapped";
  return pages;
}

// Returns how many bytes may be copied, where keys and values may grow to so many. A limit counts
// the weights already; a copy takes no more.
size_t most_copied_bytes(const Options& options, size_t cache_bytes) {
  const size_t available = available_memory_bytes();
  if (options.memory.limit_bytes > 0) return available;
  return std::min(available / 2, available - std::min(available, cache_bytes));
}

WeightPages copy_between(const Options& options, gguf::File& file,
                         std::span<const weights::FileRead> ranges) {
  WeightPages pages;
  pages.text = "blocks in one of two layouts, the rest mapped";
  if (options.memory.load == Load::kMap || !gives_huge_pages()) return pages;
  Team team(usable_cores());
  const RealClock clock;
  const double start_us = clock.now_us();
  size_t bytes = 0;
  for (size_t i = 0; i < file.shards().size(); ++i) {
    const gguf::File::Shard& shard = file.shards()[i];
    bytes += shard.map->copy_into_memory(team, gaps_between(shard, ranges_of(ranges, i)));
  }
  pages.seconds = 1e-6 * (clock.now_us() - start_us);
  if (bytes == 0) return pages;
  pages.text = fmt::format(
      "blocks in one of two layouts; of the rest {:.0f} MB copied into memory in {:.2f} s",
      bytes / kMb, pages.seconds);
  return pages;
}

}  // namespace

WeightPages place_weights_beside(const Options& options, gguf::File& file,
                                 std::span<const weights::FileRead> ranges) {
  for (const weights::FileRead& range : ranges) {
    const gguf::File::Shard& shard = file.shards()[static_cast<size_t>(range.shard)];
    shard.map->let_go({range.offset, range.offset + range.bytes});
  }
  WeightPages pages = copy_between(options, file, ranges);
  // Weights were read through the map, but the page cache must not keep a second copy of them.
  for (const gguf::File::Shard& shard : file.shards()) {
    (void)posix_fadvise(shard.map->descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  }
  return pages;
}

std::vector<weights::FileRead> unread_ranges(const model::Blueprint& blueprint,
                                             const gguf::File& file) {
  std::vector<weights::FileRead> ranges;
  for (const model::Predictor& predictor : blueprint.predictors) {
    for (const model::WeightId id : {predictor.down, predictor.up}) {
      const std::string& name = blueprint.weights[static_cast<size_t>(id)].name;
      const gguf::TensorInfo& tensor = *file.find_tensor(name);  // the store has found it too
      const auto shard = static_cast<int>(tensor.shard);
      const size_t begin = file.shards()[tensor.shard].data_offset + tensor.offset;
      ranges.push_back({shard, begin, tensor.bytes, nullptr});
    }
  }
  return ranges;
}

WeightPages place_weights(const Options& options, gguf::File& file,
                          std::span<const weights::FileRead> unread, size_t cache_bytes) {
  const Load load = options.memory.load;
  const size_t bytes = mapped_bytes(file);
  if (bytes == 0) return {false, "given in memory"};
  if (options.memory.layouts == Layouts::kSwitch) return {};  // see place_weights_beside
  if (load == Load::kCopy) return copy(file, unread);
  std::string why;
  if (load == Load::kAuto && bytes >= kLeastBytes) {
    if (!gives_huge_pages()) {
      why = "this system has no huge pages to copy it into";
    } else if (bytes > most_copied_bytes(options, cache_bytes)) {
      why = options.memory.limit_bytes > 0
                ? "a copy would take more than the free memory"
                : "a copy would take more than half of the free memory, or what the "
                  "context may need of it";
    } else {
      return copy(file, unread);
    }
  }
  // Every shard is asked for huge pages, so that none stays behind.
  size_t n_huge = 0;
  for (const gguf::File::Shard& shard : file.shards()) {
    if (shard.map->comes_in_huge_pages()) n_huge += shard.bytes.size();
  }
  return {false, fmt::format("mapped in {} pages{}{}", n_huge * 2 > bytes ? "huge" : "small",
                             why.empty() ? "" : "; ", why)};
}

}  // namespace troika::prepare
