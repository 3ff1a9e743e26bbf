// What a run brings along beside its values, in memory that kernels read: tokens, angles, slots,
// and the positions that each token sees.
#pragma once

#include <memory>

#include "lanes/lane.h"
#include "lanes/opencl/driver/device.h"

namespace troika::lanes::opencl {

// Counts the tasks that wait in a device's queue: enough to keep it busy while the next ones are
// decided. Each has copies of its run's data.
inline constexpr int kQueueDepth = 4;

// Copies of a run's data. One thread at a time uses them, and not while kernels read them. Lists of
// positions grow as texts do, in leaps; what else a run has is bounded by the rows of executables.
class RunData {
 public:
  explicit RunData(SharedMemory* memory) : memory_(memory) {}
  ~RunData();
  RunData(const RunData&) = delete;
  RunData& operator=(const RunData&) = delete;

  // Returns the bytes of a run of n_tokens rows, without its lists.
  static size_t bytes_for(size_t n_tokens, size_t n_pairs);
  // Returns the most bytes that lists take besides, where rows see n_positions positions together.
  static size_t list_bytes_for(size_t n_positions) { return 2 * n_positions * sizeof(cache::Slot); }

  // Makes room for runs of n_tokens rows, but not for their lists. Returns false where there is no
  // memory; then what there was before is still there.
  bool reserve(size_t n_tokens, size_t n_pairs);
  // Copies what the run has; lists of positions only where has_lists. Returns false where there is
  // no memory for them.
  bool take(const Run& run, int n_pairs, bool has_lists);

  // Returns the buffer in which kernels find the data; the functions below return offsets in bytes
  // from its beginning.
  Buffer buffer() const { return place_.buffer; }
  uint64_t tokens() const { return place_.offset_bytes + tokens_; }
  uint64_t output_rows() const { return place_.offset_bytes + output_rows_; }
  uint64_t rope_cos() const { return place_.offset_bytes + rope_cos_; }
  uint64_t rope_sin() const { return place_.offset_bytes + rope_sin_; }
  uint64_t slots() const { return place_.offset_bytes + slots_; }
  // Returns the offset of (n_tokens) entries: where a token's past begins in `lists`, how long it
  // is, and the same two numbers for its own positions.
  uint64_t seen() const { return place_.offset_bytes + seen_; }
  uint64_t lists() const { return place_.offset_bytes + lists_; }
  size_t bytes() const { return capacity_; }

 private:
  struct Seen {
    uint32_t past, n_past, own, n_own;
  };
  bool grow(size_t bytes);
  size_t copy(const void* from, size_t bytes);
  template <typename Take>
  static size_t lay_lists(const Run& run, const Take& take);
  void take_lists(const Run& run);

  SharedMemory* memory_;
  std::byte* begin_ = nullptr;
  size_t capacity_ = 0;
  size_t most_row_bytes_ = 0;  // what runs take without their lists
  size_t used_ = 0;
  Place place_;
  size_t tokens_ = 0, output_rows_ = 0, rope_cos_ = 0, rope_sin_ = 0, slots_ = 0, seen_ = 0,
         lists_ = 0;
};

}  // namespace troika::lanes::opencl
