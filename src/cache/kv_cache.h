// Keys and values of past tokens, of all sequences. Each token of each sequence has a slot. A slot
// says whose keys and values it holds: a token, and the tag of what made them. Sequences that share
// a beginning share its slots. Storage grows page by page as slots are taken.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/huge_pages.h"
#include "cache/batch.h"
#include "tensor/type.h"

namespace troika::cache {

using Slot = uint32_t;

// Says whether heads of this length consist of whole blocks of the type.
bool holds_heads(tensor::Type type, int head_dim);
// Throws Error, with what to do, where heads of this length do not consist of whole blocks.
void check_head_length(tensor::Type type, int head_dim);

struct KvShape {
  int n_layers;
  int n_kv_heads;
  int head_dim;
  tensor::Type type;       // F32, F16 or Q8_0
  int most_slots;          // counts the slots of all sequences together
  int most_positions = 0;  // the context of each sequence; 0: as many as there are slots

  // Returns the length that no sequence exceeds.
  int limit() const { return most_positions > 0 ? most_positions : most_slots; }
  size_t head_bytes() const { return tensor::row_bytes(type, static_cast<size_t>(head_dim)); }
  size_t slot_bytes() const { return head_bytes() * static_cast<size_t>(n_kv_heads); }
  // Returns the bytes of the keys and values of all layers.
  size_t bytes_per_token() const { return 2 * slot_bytes() * static_cast<size_t>(n_layers); }
};

// The slots that a row may look at, in the order of their positions: first the part that it shares
// with the rest of its sequence, then its own ancestors within the batch, and the row itself. This
// is the mask, as data.
struct VisibleSlots {
  std::span<const Slot> past;
  std::span<const Slot> own;

  size_t size() const { return past.size() + own.size(); }
  // Returns the last `window` slots, the row's own included; 0: all.
  VisibleSlots within(int window) const {
    const auto most = static_cast<size_t>(window);
    if (window == 0 || size() <= most) return *this;
    const size_t n_own = own.size() < most ? own.size() : most;
    return {past.last(most - n_own), own.last(n_own)};
  }
};

// The slots of a batch in the cache. Valid until the next call of `place` with this object, or a
// change to one of its sequences.
struct PlacedBatch {
  std::vector<Slot> slots;            // one for each row
  std::vector<VisibleSlots> visible;  // one for each row
  std::vector<Slot> tree;             // holds the lists of `own` where rows branch
  // Counts the rows of a row's chain, itself included; 0: the row is in a tree.
  std::vector<int> chains;

  // Makes room, so that batches of up to most_rows rows allocate nothing; most_branching_rows of
  // the rows may branch.
  void reserve(int most_rows, int most_branching_rows);
};

// Gives memory for all pages at once, of which little may ever be touched; null where it has none.
// A device that does not see every address of this process needs such a source.
using PageSource = std::function<std::shared_ptr<std::byte>(size_t bytes)>;

// The cache. One thread at a time uses it.
class KvCache {
 public:
  // Throws Error where the type cannot hold heads of this length; then no function of the shape
  // that counts bytes may be called, either. Without a source each page is plain memory of its own.
  explicit KvCache(const KvShape& shape, const PageSource& source = {});

  const KvShape& shape() const { return shape_; }

  // Opens a sequence without tokens, with room in its list for all that it may get. Numbers begin
  // at 0, and those of closed sequences are given again.
  SequenceId open();
  // Closes and forgets the sequence.
  void close(SequenceId sequence);
  bool is_open(SequenceId sequence) const;
  // Returns a number that is larger than that of any sequence.
  SequenceId sequence_end() const { return static_cast<SequenceId>(sequences_.size()); }

  // Takes a slot for each row, near the last slot of its sequence: so, even where sequences grow
  // side by side, attention reads their lists in long stretches. Throws Error where a sequence
  // would become longer than its limit, or where all slots are taken; then nothing is taken.
  // REQUIRES: sequences are open.
  void place(const Batch& batch, PlacedBatch* placed);
  // Appends the rows, in this order, to their sequences, and gives back the slots of all other
  // placed rows. Every placed batch must be ended by `keep` or `drop`.
  void keep(const Batch& batch, const PlacedBatch& placed, std::span<const int> rows);
  void keep_all(const Batch& batch, const PlacedBatch& placed);
  void drop(const PlacedBatch& placed);
  // Takes the pages that `place` would take for the batch; then `place` allocates nothing as long
  // as these last. Throws Error without memory.
  void reserve_for(const Batch& batch);

  int length(SequenceId sequence) const { return static_cast<int>(slots(sequence).size()); }
  // Returns the slots in the order of positions. They are valid until the sequence changes.
  std::span<const Slot> slots(SequenceId sequence) const;
  Token token_of(SequenceId sequence, int position) const { return held(sequence, position).token; }
  Tag tag_of(SequenceId sequence, int position) const { return held(sequence, position).tag; }
  // Returns how many of these tokens the sequence begins with, made as these tags say.
  int n_common(SequenceId sequence, std::span<const Token> tokens, std::span<const Tag> tags) const;

  // Forgets the tokens of a sequence from `length` on.
  void truncate(SequenceId sequence, int length);
  // Makes `to` the first `length` tokens of `from`; no key or value is copied.
  void fork(SequenceId from, SequenceId to, int length);

  // Gives out no more than n_slots slots from now on; some of them may be taken already. REQUIRES:
  // the shape has at least n_slots slots.
  void limit_slots(int n_slots);
  int n_limit() const { return n_limit_; }
  int n_free() const { return std::max(0, n_limit_ - n_taken_); }
  size_t bytes() const;

  static constexpr uint32_t kPageSlotsLog2 = 8;
  // Return the page tables of a layer. Slot s lies in page s >> kPageSlotsLog2. A page holds the
  // rows of the first head for all of its slots, then those of the next: whoever reads one head
  // reads straight through memory.
  const std::byte* const* key_pages(int layer) const;
  const std::byte* const* value_pages(int layer) const;
  // Returns the distance from one page of a layer to the next, where all pages are of one source;
  // else 0.
  size_t page_stride_bytes() const { return region_ != nullptr ? block_bytes() : 0; }
  size_t head_offset_bytes(int head) const {  // the offset lies within a page
    return (shape_.head_bytes() << kPageSlotsLog2) * static_cast<size_t>(head);
  }
  // Return the row of one head.
  std::byte* key_row(int layer, Slot slot, int head);
  std::byte* value_row(int layer, Slot slot, int head);

 private:
  struct Layer {
    std::vector<std::byte*> key_pages;
    std::vector<std::byte*> value_pages;
  };
  struct Held {
    Token token;
    Tag tag;
  };
  struct Sequence {
    std::vector<Slot> slots;
    int group = -1;  // the group of 64 slots from which the sequence takes its next slot if it can
    int n_wanted = 0;  // slots that rows of a batch want; used by `reserve_for` alone
    bool is_open = false;
  };
  const char* advice() const;
  void take_region(const PageSource& source);
  void grow();
  size_t page_bytes() const { return shape_.slot_bytes() << kPageSlotsLog2; }
  size_t block_bytes() const { return page_bytes() * 2 * static_cast<size_t>(shape_.n_layers); }
  size_t n_blocks() const { return n_users_.size() >> kPageSlotsLog2; }
  void check_room(const Batch& batch) const;
  Slot take(const Batch::Row& row);
  int n_new_groups(const Batch& batch);
  int n_whole_groups() const;
  int group_after(int group) const;
  static int group_of_end(const Sequence& sequence);
  void release(Slot slot);
  void append(const Batch::Row& row, Slot slot);
  Sequence& sequence_of(SequenceId sequence);
  const Held& held(SequenceId sequence, int position) const {
    return held_[slots(sequence)[static_cast<size_t>(position)]];
  }
  std::byte* row(const std::vector<std::byte*>& pages, Slot slot, int head) const;

  KvShape shape_;
  std::vector<Layer> layers_;
  // Each piece holds one page of every layer. Pieces lie in the region, where there is one.
  std::vector<HugeBuffer> storage_;
  std::shared_ptr<std::byte> region_;
  std::vector<uint32_t> n_users_;  // by slot: counts sequences and placements that hold it
  std::vector<Held> held_;         // by slot
  std::vector<uint64_t> free_;     // a bit for each slot, a group in each number
  int n_taken_ = 0;
  int n_limit_;
  std::vector<Sequence> sequences_;
  std::vector<SequenceId> closed_;
};

}  // namespace troika::cache
