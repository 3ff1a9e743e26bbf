// Measures how fast the disk reads: block size × sequential or random × range × depth.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/progress.h"
#include "plan/profile.h"

namespace troika::solve {

struct StorageOptions {
  std::string folder;                // has room for a temporary file, which is removed
  uint64_t file_bytes = 256u << 20;  // a multiple of every block and range
  std::vector<uint64_t> block_bytes = {4u << 10,  8u << 10,   16u << 10,
                                       64u << 10, 256u << 10, 1u << 20};
  std::vector<uint64_t> range_bytes = {16u << 20, 256u << 20};  // the ranges of random reads
  std::vector<int> depths = {1, 4, 16};  // count threads, each with one read under way
  double each_us = 60'000.0;             // the time for one combination
  // Says what somebody can do where the file cannot be written.
  std::string way_out = "Use ‹no-storage›, or another XDG_CACHE_HOME.";
};

// Throws Error where the file cannot be written or read.
plan::Storage profile_storage(const StorageOptions& options, const ProgressFunction& progress);

// Returns what decides which blocks a combination reads: of random reads the sequence, of reads in
// order the block at which they begin. Each combination has another, so that none begins with what
// one before has read and the disk, or what lies below it, may still have in memory.
uint64_t storage_seed(const plan::DiskRead& combination);

// Reads a file that is there, with as many reads under way as plans reckon with. This says more of
// that file than a new one does, which what lies below the disk may still have in memory. A file of
// less than kLeastProfiledFile bytes gives no reads. Throws Error where it cannot be read.
inline constexpr uint64_t kLeastProfiledFile = uint64_t{64} << 20;
plan::Storage profile_file(const std::string& path, const ProgressFunction& progress);

}  // namespace troika::solve
