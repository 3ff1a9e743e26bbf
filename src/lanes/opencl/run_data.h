// What a run brings along beside its values, where kernels read it: tokens, angles, slots, and what
// each token sees.
#pragma once

#include <memory>

#include "lanes/lane.h"
#include "lanes/opencl/device.h"

namespace troika::lanes::opencl {

// One thread at a time uses it, and not while kernels read it.
class RunData {
 public:
  explicit RunData(SharedMemory* memory) : memory_(memory) {}
  ~RunData();
  RunData(const RunData&) = delete;
  RunData& operator=(const RunData&) = delete;

  // Copies what the run has; the lists of positions only where they are wanted. Returns whether
  // there was memory for it, which is taken in leaps.
  bool take(const Run& run, int n_pairs, bool has_lists);

  // Where kernels find it: behind the beginning of a buffer, in bytes.
  Buffer buffer() const { return place_.buffer; }
  uint64_t tokens() const { return place_.offset_bytes + tokens_; }
  uint64_t output_rows() const { return place_.offset_bytes + output_rows_; }
  uint64_t rope_cos() const { return place_.offset_bytes + rope_cos_; }
  uint64_t rope_sin() const { return place_.offset_bytes + rope_sin_; }
  uint64_t slots() const { return place_.offset_bytes + slots_; }
  // (n_tokens) of where its past begins in `lists`, how long it is, and the same of its own.
  uint64_t seen() const { return place_.offset_bytes + seen_; }
  uint64_t lists() const { return place_.offset_bytes + lists_; }
  size_t bytes() const { return capacity_; }

 private:
  struct Seen {
    uint32_t past, n_past, own, n_own;
  };
  bool reserve(size_t bytes);
  size_t copy(const void* from, size_t bytes);
  void take_lists(const Run& run);
  static size_t list_items(const Run& run);

  SharedMemory* memory_;
  std::byte* begin_ = nullptr;
  size_t capacity_ = 0;
  size_t used_ = 0;
  Place place_;
  size_t tokens_ = 0, output_rows_ = 0, rope_cos_ = 0, rope_sin_ = 0, slots_ = 0, seen_ = 0,
         lists_ = 0;
};

}  // namespace troika::lanes::opencl
