// Keys and values of past tokens. Each token of each sequence has a slot; sequences that share a
// beginning share its slots. Storage grows page by page as slots are taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/huge_pages.h"
#include "cache/batch.h"
#include "tensor/type.h"

namespace troika::cache {

using Slot = uint32_t;

// Whether heads of this length consist of whole blocks of the type.
bool holds_heads(tensor::Type type, int head_dim);
// Throws Error, with what to do, where they do not.
void check_head_length(tensor::Type type, int head_dim);

struct KvShape {
  int n_layers;
  int n_kv_heads;
  int head_dim;
  tensor::Type type;  // F32, F16 or Q8_0
  int most_slots;     // the context

  size_t head_bytes() const { return tensor::row_bytes(type, static_cast<size_t>(head_dim)); }
  size_t slot_bytes() const { return head_bytes() * static_cast<size_t>(n_kv_heads); }
  // Keys and values of all layers.
  size_t bytes_per_token() const { return 2 * slot_bytes() * static_cast<size_t>(n_layers); }
};

// The slots a row may look at, in the order of their positions: first the part it shares with the
// rest of its sequence, then its own ancestors within the batch and itself. This is the mask, as
// data.
struct VisibleSlots {
  std::span<const Slot> past;
  std::span<const Slot> own;

  size_t size() const { return past.size() + own.size(); }
  // Of them the last `window` ones, itself included; 0: all.
  VisibleSlots within(int window) const {
    const auto most = static_cast<size_t>(window);
    if (window == 0 || size() <= most) return *this;
    const size_t n_own = own.size() < most ? own.size() : most;
    return {past.last(most - n_own), own.last(n_own)};
  }
};

// Where a batch lies in the cache. Valid until the next call of `place` or a change to a sequence.
struct Placement {
  std::vector<Slot> slots;            // one for each row
  std::vector<VisibleSlots> visible;  // one for each row
  std::vector<Slot> tree;             // storage behind `own` where rows branch
};

class KvCache {
 public:
  // Throws Error where the type cannot hold heads of this length; then no function of the shape
  // that counts bytes may be called either.
  explicit KvCache(const KvShape& shape);

  const KvShape& shape() const { return shape_; }

  // Takes a slot for each row, growing the storage where needed. Throws Error when the context is
  // full; then nothing is taken.
  void place(const Batch& batch, Placement* placement);
  // Appends the rows (in this order) to the sequence they belong to and gives back the slots of
  // all other rows of the placement. Every placement must be ended by `keep` or `drop`.
  void keep(const Batch& batch, const Placement& placement, std::span<const int> rows);
  void keep_all(const Batch& batch, const Placement& placement);
  void drop(const Placement& placement);

  int length(SequenceId sequence) const;
  // Forgets the tokens of a sequence from `length` on.
  void truncate(SequenceId sequence, int length);
  // `to` becomes the first `length` tokens of `from`; no key or value is copied.
  void fork(SequenceId from, SequenceId to, int length);

  int n_free() const { return shape_.most_slots - n_taken_; }
  size_t bytes() const;

  static constexpr uint32_t kPageSlotsLog2 = 8;
  // Page tables for a layer; slot s lies in page s >> kPageSlotsLog2. A page holds the rows of the
  // first head for all of its slots, then those of the next: whoever reads a head reads straight
  // through memory.
  const std::byte* const* key_pages(int layer) const;
  const std::byte* const* value_pages(int layer) const;
  size_t head_offset_bytes(int head) const {  // within a page
    return (shape_.head_bytes() << kPageSlotsLog2) * static_cast<size_t>(head);
  }
  // The row of one head.
  std::byte* key_row(int layer, Slot slot, int head);
  std::byte* value_row(int layer, Slot slot, int head);

 private:
  struct Layer {
    std::vector<std::byte*> key_pages;
    std::vector<std::byte*> value_pages;
  };
  void grow();
  Slot take();
  void release(Slot slot);
  std::vector<Slot>& sequence_of(SequenceId sequence) { return sequences_[sequence]; }
  std::byte* row(const std::vector<std::byte*>& pages, Slot slot, int head) const;

  KvShape shape_;
  std::vector<Layer> layers_;
  std::vector<HugeBuffer> storage_;  // a page of every layer each
  std::vector<uint32_t> n_users_;    // sequences and placements that hold a slot
  std::vector<Slot> free_;           // smallest on top
  int n_taken_ = 0;
  std::unordered_map<SequenceId, std::vector<Slot>> sequences_;
};

}  // namespace troika::cache
