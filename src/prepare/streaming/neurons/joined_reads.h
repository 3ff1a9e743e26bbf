// Makes read requests for bundles. Bundles that stand near each other in the file share a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lanes/disk/disk_lane.h"
#include "weights/neurons/bundle_layout.h"

namespace troika::prepare {

class JoinedReads {
 public:
  // Bundles are read together if no more than `gap_bytes` lie between them, up to
  // `weights::kMostBundleRequest`.
  JoinedReads(uint64_t gap_bytes, std::vector<lanes::ReadRequest>* reads)
      : gap_bytes_(gap_bytes), reads_(reads) {
    reads->clear();
  }

  // Adds the pages of a bundle. REQUIRES: the bundle stands behind those that were added before.
  void add(weights::BundleRange pages);
  // Returns what bytes() would be if the bundle were added.
  uint64_t bytes_with(weights::BundleRange pages) const;
  // Returns the bytes that all requests read. read_to() sends them to one stretch of memory.
  uint64_t bytes() const { return bytes_; }
  void read_to(std::byte* memory);
  // Returns where the bytes at this offset of the file are read to. REQUIRES: the offset is behind
  // those that were asked for before.
  const std::byte* find(uint64_t offset);
  // Says whether the request in which find() looked last goes on to this offset of the file.
  bool reads_to(uint64_t offset) const {
    return offset <= (*reads_)[found_].offset + (*reads_)[found_].bytes;
  }

 private:
  bool joins_last(weights::BundleRange pages) const;

  uint64_t gap_bytes_;
  std::vector<lanes::ReadRequest>* reads_;
  uint64_t bytes_ = 0;
  size_t found_ = 0;  // the request in which find() looked last
};

// Returns how far apart bundles may be that share a request: the bytes of such a gap take as long
// to read as one more request. Reads a few megabytes of the file to find out.
uint64_t measured_gap(lanes::DiskLane& disk, const weights::BundleLayout& layout,
                      std::span<std::byte> memory);

}  // namespace troika::prepare
