// Requests for bundles: those that stand near each other in the file are one.
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
  // Bundles are read together if no more than `gap_bytes` lie between them, up to `kMostBytes`.
  JoinedReads(uint64_t gap_bytes, std::vector<lanes::ReadRequest>* reads)
      : gap_bytes_(gap_bytes), reads_(reads) {
    reads->clear();
  }

  // The pages of a bundle that stands behind those before it.
  void add(weights::BundleRange pages);
  // What all requests read, to one stretch of memory.
  uint64_t bytes() const { return bytes_; }
  void read_to(std::byte* memory);
  // Where what stands at this offset is read to: behind those asked for before.
  const std::byte* find(uint64_t offset);

 private:
  uint64_t gap_bytes_;
  std::vector<lanes::ReadRequest>* reads_;
  uint64_t bytes_ = 0;
  size_t found_ = 0;  // the request that was found last
};

// How far bundles may be apart: what lies between them takes as long to read as a request of its
// own. Reads a few megabytes of the file to find out.
uint64_t measured_gap(lanes::DiskLane& disk, const weights::BundleLayout& layout,
                      std::span<std::byte> memory);

}  // namespace troika::prepare
