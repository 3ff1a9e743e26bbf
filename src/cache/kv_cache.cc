#include "cache/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "base/error.h"

namespace troika::cache {
namespace {

constexpr Slot kPageSlots = 1u << KvCache::kPageSlotsLog2;
constexpr Slot kGroupSlots = 64;  // one slot for each bit of a number
constexpr uint64_t kWholeGroup = ~uint64_t{0};

size_t n_pages_of(int n_slots) {
  return (static_cast<size_t>(n_slots) + kPageSlots - 1) / kPageSlots;
}

// Finds the chain of each row: the row and how many rows right before it continue the end of their
// sequence without a branch; 0 for rows of a tree. Returns how many slots the lists of tree rows
// take.
size_t find_chains(const Batch& batch, const KvCache& kv, std::vector<int>* chains) {
  size_t n_tree = 0;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const Batch::Row& row = batch.rows[i];
    TROIKA_ASSERT(row.parent < static_cast<int>(i));
    int chain = row.parent < 0 ? 1 : 0;
    if (row.parent >= 0) {
      const auto parent = static_cast<size_t>(row.parent);
      TROIKA_ASSERT(batch.rows[parent].sequence == row.sequence);
      TROIKA_ASSERT(batch.rows[parent].position + 1 == row.position);
      if (parent + 1 == i && (*chains)[parent] > 0) chain = (*chains)[parent] + 1;
    } else {
      TROIKA_ASSERT(row.position == kv.length(row.sequence));
    }
    if (chain == 0) n_tree += static_cast<size_t>(row.position + 1 - kv.length(row.sequence));
    (*chains)[i] = chain;
  }
  return n_tree;
}

}  // namespace

bool holds_heads(tensor::Type type, int head_dim) {
  return head_dim % static_cast<int>(tensor::type_info(type).block_length) == 0;
}

void check_head_length(tensor::Type type, int head_dim) {
  if (holds_heads(type, head_dim)) return;
  throw Error(
      fmt::format("A cache of type {} needs heads of a multiple of {} elements, and this "
                  "model's have {}. Choose ‹kv› f16 or ‹kv› f32.",
                  tensor::type_name(type), tensor::type_info(type).block_length, head_dim));
}

void PlacedBatch::reserve(int most_rows, int most_branching_rows) {
  const auto n = static_cast<size_t>(most_rows);
  const auto n_branching = static_cast<size_t>(most_branching_rows);
  slots.reserve(n);
  visible.reserve(n);
  chains.reserve(n);
  tree.reserve(n_branching * (n_branching + 1) / 2);  // enough if each row continues the one before
}

// Returns what makes keys and values smaller.
const char* KvCache::advice() const {
  return shape_.type == tensor::Type::kQ8_0 ? "Use a smaller ‹context›"
                                            : "Use a smaller ‹context›, or ‹kv› q8_0";
}

KvCache::KvCache(const KvShape& shape, const PageSource& source)
    : shape_(shape), layers_(static_cast<size_t>(shape.n_layers)), n_limit_(shape.most_slots) {
  check_head_length(shape.type, shape.head_dim);
  if (source != nullptr && block_bytes() > 0 && shape.most_slots > 0) take_region(source);
  // Page tables never move, because kernels hold pointers to them.
  const size_t most_pages = n_pages_of(shape_.most_slots);
  storage_.reserve(most_pages);
  for (Layer& layer : layers_) {
    layer.key_pages.reserve(most_pages);
    layer.value_pages.reserve(most_pages);
  }
}

// Takes memory for all pages. Where there is not so much, half of it will do, and so on, as long as
// it holds a text.
void KvCache::take_region(const PageSource& source) {
  const size_t n_least = n_pages_of(std::min(shape_.limit(), shape_.most_slots));
  for (size_t n_pages = n_pages_of(shape_.most_slots);; n_pages = std::max(n_pages / 2, n_least)) {
    region_ = source(block_bytes() * n_pages);
    if (region_ != nullptr) {
      const size_t n_slots = n_pages * kPageSlots;
      shape_.most_slots = std::min(shape_.most_slots, static_cast<int>(n_slots));
      n_limit_ = shape_.most_slots;
      return;
    }
    if (n_pages > n_least) continue;
    throw Error(fmt::format("No memory that a device shares for {:.1f} MB of context. {}.",
                            1e-6 * static_cast<double>(block_bytes() * n_pages), advice()));
  }
}

namespace {

// Reserves room in leaps, as growing by itself does.
template <typename T>
void make_room(size_t n, std::vector<T>* values) {
  if (values->capacity() < n) values->reserve(std::max(n, 2 * values->capacity()));
}

}  // namespace

void KvCache::grow() {
  const size_t page_bytes = this->page_bytes();
  std::byte* next = region_ != nullptr ? region_.get() + n_blocks() * block_bytes() : nullptr;
  HugeBuffer block;
  const size_t n_slots = n_users_.size() + kPageSlots;
  try {
    if (next == nullptr) {
      block = HugeBuffer(block_bytes());
      next = block.get();
    }
    // Nothing has changed yet where one of these fails.
    make_room(n_slots, &n_users_);
    make_room(n_slots, &held_);
    make_room(n_slots / kGroupSlots, &free_);
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("No memory for {:.1f} MB more of context. {}.",
                            1e-6 * static_cast<double>(block_bytes()), advice()));
  }
  n_users_.resize(n_slots, 0);
  held_.resize(n_slots);
  free_.resize(n_slots / kGroupSlots, kWholeGroup);
  for (Layer& layer : layers_) {
    layer.key_pages.push_back(next);
    layer.value_pages.push_back(next + page_bytes);
    next += 2 * page_bytes;
  }
  if (region_ == nullptr) storage_.push_back(std::move(block));
}

// Returns how many more groups the sequences of a batch need.
int KvCache::n_new_groups(const Batch& batch) {
  for (const Batch::Row& row : batch.rows) ++sequence_of(row.sequence).n_wanted;
  int n_groups = 0;
  for (const Batch::Row& row : batch.rows) {
    Sequence& sequence = sequence_of(row.sequence);
    int n_more = std::exchange(sequence.n_wanted, 0);
    if (sequence.group >= 0) n_more -= std::popcount(free_[static_cast<size_t>(sequence.group)]);
    if (n_more > 0) n_groups += (n_more - 1) / static_cast<int>(kGroupSlots) + 1;
  }
  return n_groups;
}

void KvCache::limit_slots(int n_slots) {
  TROIKA_ASSERT(n_slots >= 0 && n_slots <= shape_.most_slots);
  n_limit_ = n_slots;
}

int KvCache::n_whole_groups() const {
  return static_cast<int>(std::count(free_.begin(), free_.end(), kWholeGroup));
}

void KvCache::reserve_for(const Batch& batch) {
  const auto n_slots = [&] { return static_cast<int>(n_users_.size()); };
  while (n_slots() < n_limit_ && n_slots() - n_taken_ < batch.size()) grow();
  // A new page is taken before two sequences share a group.
  const int n_groups = n_new_groups(batch);
  if (n_groups == 0) return;
  while (n_slots() < n_limit_ && n_whole_groups() < n_groups) grow();
}

SequenceId KvCache::open() {
  if (closed_.empty()) {
    Sequence sequence;
    sequence.slots.reserve(static_cast<size_t>(shape_.limit()));
    // Nothing has changed yet where one of these fails, and `close` needs no more memory.
    make_room(sequences_.size() + 1, &closed_);
    make_room(sequences_.size() + 1, &sequences_);
    sequences_.push_back(std::move(sequence));
    closed_.push_back(sequence_end() - 1);
  }
  const SequenceId sequence = closed_.back();
  closed_.pop_back();
  sequences_[static_cast<size_t>(sequence)].is_open = true;
  return sequence;
}

void KvCache::close(SequenceId sequence) {
  truncate(sequence, 0);
  sequence_of(sequence).is_open = false;
  closed_.push_back(sequence);
}

bool KvCache::is_open(SequenceId sequence) const {
  return sequence >= 0 && sequence < sequence_end() &&
         sequences_[static_cast<size_t>(sequence)].is_open;
}

KvCache::Sequence& KvCache::sequence_of(SequenceId sequence) {
  TROIKA_ASSERT(is_open(sequence));
  return sequences_[static_cast<size_t>(sequence)];
}

std::span<const Slot> KvCache::slots(SequenceId sequence) const {
  TROIKA_ASSERT(is_open(sequence));
  return sequences_[static_cast<size_t>(sequence)].slots;
}

// Returns the group in which a sequence ends, after a change.
int KvCache::group_of_end(const Sequence& sequence) {
  return sequence.slots.empty() ? -1 : static_cast<int>(sequence.slots.back() / kGroupSlots);
}

// Returns the next group whose slots are all free, or else the next one with a free slot.
int KvCache::group_after(int group) const {
  const auto n = static_cast<int>(free_.size());
  int found = -1;
  for (int i = 1; i <= n; ++i) {
    const int next = (group + i) % n;
    const uint64_t free = free_[static_cast<size_t>(next)];
    if (free == kWholeGroup) return next;
    if (found < 0 && free != 0) found = next;
  }
  TROIKA_ASSERT(found >= 0);
  return found;
}

Slot KvCache::take(const Batch::Row& row) {
  int& group = sequence_of(row.sequence).group;
  if (group < 0 || free_[static_cast<size_t>(group)] == 0) group = group_after(group);
  uint64_t& free = free_[static_cast<size_t>(group)];
  const Slot slot =
      static_cast<Slot>(group) * kGroupSlots + static_cast<Slot>(std::countr_zero(free));
  free &= free - 1;
  n_users_[slot] = 1;
  held_[slot] = {row.token, row.tag};
  ++n_taken_;
  return slot;
}

void KvCache::release(Slot slot) {
  TROIKA_ASSERT(n_users_[slot] > 0);
  if (--n_users_[slot] > 0) return;
  free_[slot / kGroupSlots] |= uint64_t{1} << (slot % kGroupSlots);
  --n_taken_;
}

void KvCache::check_room(const Batch& batch) const {
  int n_positions = 0;
  for (const Batch::Row& row : batch.rows) n_positions = std::max(n_positions, row.position + 1);
  if (n_positions > shape_.limit()) {
    throw Error(
        fmt::format("The context of {} tokens is full: {} more do not fit. Use a larger "
                    "‹context› or a shorter text.",
                    shape_.limit(), n_positions - shape_.limit()));
  }
  if (batch.size() > n_free()) {
    throw Error(
        fmt::format("The texts in work have room for {} tokens together, and it is taken: {} more "
                    "do not fit. Let fewer run at once, or shorter ones.",
                    n_limit_, batch.size() - n_free()));
  }
}

void KvCache::place(const Batch& batch, PlacedBatch* placed) {
  check_room(batch);
  const auto n_rows = static_cast<size_t>(batch.size());
  placed->slots.resize(n_rows);
  placed->visible.resize(n_rows);
  placed->chains.resize(n_rows);
  placed->tree.resize(find_chains(batch, *this, &placed->chains));
  reserve_for(batch);  // may throw; nothing is taken yet
  for (size_t row = 0; row < n_rows; ++row) placed->slots[row] = take(batch.rows[row]);

  std::span<Slot> tree = placed->tree;
  for (size_t row = 0; row < n_rows; ++row) {
    const std::span<const Slot> past = slots(batch.rows[row].sequence);
    const auto chain = static_cast<size_t>(placed->chains[row]);
    if (chain > 0) {
      const std::span<const Slot> all = placed->slots;
      placed->visible[row] = {past, all.subspan(row + 1 - chain, chain)};
      continue;
    }
    size_t n_own = static_cast<size_t>(batch.rows[row].position) + 1 - past.size();
    const std::span<Slot> own = tree.first(n_own);
    tree = tree.subspan(n_own);
    for (int i = static_cast<int>(row); i >= 0; i = batch.rows[static_cast<size_t>(i)].parent) {
      own[--n_own] = placed->slots[static_cast<size_t>(i)];
    }
    placed->visible[row] = {past, own};
  }
}

void KvCache::append(const Batch::Row& row, Slot slot) {
  Sequence& sequence = sequence_of(row.sequence);
  TROIKA_ASSERT(row.position == static_cast<int>(sequence.slots.size()));
  sequence.slots.push_back(slot);
  sequence.group = group_of_end(sequence);
  ++n_users_[slot];
}

void KvCache::keep(const Batch& batch, const PlacedBatch& placed, std::span<const int> rows) {
  for (const int row : rows) {
    append(batch.rows[static_cast<size_t>(row)], placed.slots[static_cast<size_t>(row)]);
  }
  drop(placed);
}

void KvCache::keep_all(const Batch& batch, const PlacedBatch& placed) {
  for (size_t row = 0; row < placed.slots.size(); ++row) {
    append(batch.rows[row], placed.slots[row]);
  }
  drop(placed);
}

void KvCache::drop(const PlacedBatch& placed) {
  for (const Slot slot : placed.slots) release(slot);
}

int KvCache::n_common(SequenceId sequence, std::span<const Token> tokens,
                      std::span<const Tag> tags) const {
  const std::span<const Slot> slots = this->slots(sequence);
  const size_t most = std::min({slots.size(), tokens.size(), tags.size()});
  size_t n = 0;
  while (n < most && held_[slots[n]].token == tokens[n] && held_[slots[n]].tag == tags[n]) ++n;
  return static_cast<int>(n);
}

void KvCache::truncate(SequenceId sequence, int length) {
  Sequence& shortened = sequence_of(sequence);
  TROIKA_ASSERT(length >= 0);
  while (static_cast<int>(shortened.slots.size()) > length) {
    release(shortened.slots.back());
    shortened.slots.pop_back();
  }
  shortened.group = group_of_end(shortened);
}

void KvCache::fork(SequenceId from, SequenceId to, int length) {
  TROIKA_ASSERT(from != to && length >= 0 && length <= this->length(from));
  truncate(to, 0);
  Sequence& target = sequence_of(to);
  const std::span<const Slot> shared = slots(from).first(static_cast<size_t>(length));
  target.slots.assign(shared.begin(), shared.end());
  target.group = group_of_end(target);
  for (const Slot slot : shared) ++n_users_[slot];
}

size_t KvCache::bytes() const { return n_blocks() * block_bytes(); }

const std::byte* const* KvCache::key_pages(int layer) const {
  return layers_[static_cast<size_t>(layer)].key_pages.data();
}

const std::byte* const* KvCache::value_pages(int layer) const {
  return layers_[static_cast<size_t>(layer)].value_pages.data();
}

std::byte* KvCache::row(const std::vector<std::byte*>& pages, Slot slot, int head) const {
  return pages[slot >> kPageSlotsLog2] + head_offset_bytes(head) +
         (slot & (kPageSlots - 1)) * shape_.head_bytes();
}

std::byte* KvCache::key_row(int layer, Slot slot, int head) {
  return row(layers_[static_cast<size_t>(layer)].key_pages, slot, head);
}

std::byte* KvCache::value_row(int layer, Slot slot, int head) {
  return row(layers_[static_cast<size_t>(layer)].value_pages, slot, head);
}

}  // namespace troika::cache
