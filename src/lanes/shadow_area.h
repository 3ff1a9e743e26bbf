// The memory in which tasks of an activation's outliers hand results to each other (N4). The
// extraction writes int8 rows and lists of outliers. The product of a matrix lane reads the rows.
// The shadow product beside it reads the lists. The sum adds the two results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/outliers.h"
#include "lanes/read_request.h"
#include "weights/channels.h"

namespace troika::lanes {

// Counts what became of outliers so far.
struct ShadowCounters {
  uint64_t n_outliers = 0;  // counts outliers of all tokens and channels
  uint64_t n_cold = 0;      // counts outliers whose channels' columns are not in memory
  uint64_t n_reads = 0;     // counts columns that were read, each once for each chunk
  uint64_t read_bytes = 0;  // counts bytes of whole pages
  double read_us = 0.0;     // adds up the times from a chunk's first request to its last answer
  // Adds up how much later the last answer came than the end of the product beside.
  double wait_us = 0.0;

  void add(const ShadowCounters& other);
};

// Has one area for each set of buffers. The tasks of a chunk work on one activation after the
// other, so an activation may overwrite what belongs to the one before.
struct ShadowArea {
  std::byte* prepared = nullptr;         // (tokens, int8_token_bytes(k))
  kernels::Outlier* outliers = nullptr;  // (tokens, k)
  uint32_t* counts = nullptr;            // (tokens)
  float* addends = nullptr;              // (tokens, rows): what the outliers add
  std::vector<const int8_t*> channels;   // (k): columns of the channels in the lists
  // Columns that must come from the side file, and the memory that they are read to (N5).
  std::byte* cold = nullptr;
  std::vector<ReadRequest> reads;                // has room for all channels
  std::vector<size_t> cold_channels;             // the channel of each read; has room for all, too
  const weights::ChannelInput* input = nullptr;  // whose columns are read
  double read_end_us = 0.0;
  double product_end_us = 0.0;
  ShadowCounters counters;
};

class ShadowAreas {
 public:
  // Makes room for the largest of these inputs. Memory is taken when it is first written. Throws
  // Error where the system has no such address space.
  ShadowAreas(const weights::Channels& channels, int most_tokens, int n_sets);

  // Returns the bytes that are touched even where outliers are few. The lists and the places of
  // columns that are read are left out.
  size_t held_bytes() const { return held_bytes_; }

  ShadowArea& of(int set) { return areas_[static_cast<size_t>(set)]; }
  // Returns the counts of all areas. REQUIRES: nothing runs.
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
