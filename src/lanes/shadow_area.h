// What the tasks of an activation's outliers hand to each other (N4): the extraction writes int8
// rows and lists of outliers, the product of a matrix lane reads the rows, the shadow product
// beside it reads the lists, and the sum adds the two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/outliers.h"
#include "lanes/read_request.h"
#include "weights/channels.h"

namespace troika::lanes {

// What became of outliers so far.
struct ShadowCounters {
  uint64_t n_outliers = 0;  // of all tokens and channels
  uint64_t n_cold = 0;      // of them, in channels whose columns are not in memory
  uint64_t n_reads = 0;     // of such columns, once for each chunk
  uint64_t read_bytes = 0;  // of whole pages
  double read_us = 0.0;     // from the first request to the last answer, of all chunks together
  double wait_us = 0.0;     // by which the last answer came after the end of the product beside

  void add(const ShadowCounters& other);
};

// One for each set of buffers. The tasks of a chunk work on one activation after the other, so
// whatever belongs to the one before may be overwritten.
struct ShadowArea {
  std::byte* prepared = nullptr;         // (tokens, int8_token_bytes(k))
  kernels::Outlier* outliers = nullptr;  // (tokens, k)
  uint32_t* counts = nullptr;            // (tokens)
  float* addends = nullptr;              // (tokens, rows): what the outliers add
  std::vector<const int8_t*> channels;   // (k): columns of the channels in the lists
  // Columns that must come from the side file, and where they go (N5).
  std::byte* cold = nullptr;
  std::vector<ReadRequest> reads;
  double read_end_us = 0.0;
  double product_end_us = 0.0;
  ShadowCounters counters;
};

class ShadowAreas {
 public:
  // Holds the largest of these inputs. Memory is taken when it is first written. Throws Error where
  // the system has no such address space.
  ShadowAreas(const weights::Channels& channels, int most_tokens, int n_sets);

  // What is touched however few outliers there are: not the lists, nor the places of columns that
  // are read.
  size_t held_bytes() const { return held_bytes_; }

  ShadowArea& of(int set) { return areas_[static_cast<size_t>(set)]; }
  // REQUIRES: nothing runs.
  ShadowCounters counters() const;
  void forget_counters();

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte, Free> storage_;
  std::vector<ShadowArea> areas_;
  size_t held_bytes_ = 0;
};

}  // namespace troika::lanes
