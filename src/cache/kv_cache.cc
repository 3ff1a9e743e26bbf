#include "cache/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/error.h"

namespace troika::cache {
namespace {

constexpr Slot kPageSlots = 1u << KvCache::kPageSlotsLog2;

// A row whose ancestors are the rows right before it, back to the end of its sequence.
bool continues_chain(const Batch& batch, int row) {
  return row > 0 && batch.rows[static_cast<size_t>(row)].parent == row - 1;
}

}  // namespace

bool holds_heads(tensor::Type type, int head_dim) {
  return head_dim % static_cast<int>(tensor::type_info(type).block_length) == 0;
}

void check_head_length(tensor::Type type, int head_dim) {
  if (holds_heads(type, head_dim)) return;
  throw Error(
      fmt::format("A cache of type {} needs heads of a multiple of {} elements, and this "
                  "model's have {}. Choose --kv f16 or --kv f32.",
                  tensor::type_name(type), tensor::type_info(type).block_length, head_dim));
}

KvCache::KvCache(const KvShape& shape)
    : shape_(shape), layers_(static_cast<size_t>(shape.n_layers)) {
  check_head_length(shape.type, shape.head_dim);
  // Page tables never move: kernels hold pointers to them.
  const size_t most_pages = (static_cast<size_t>(shape.most_slots) + kPageSlots - 1) / kPageSlots;
  for (Layer& layer : layers_) {
    layer.key_pages.reserve(most_pages);
    layer.value_pages.reserve(most_pages);
  }
}

void KvCache::grow() {
  const size_t page_bytes = shape_.slot_bytes() * kPageSlots;
  const size_t n_pages = 2 * static_cast<size_t>(shape_.n_layers);
  HugeBuffer block;
  try {
    block = HugeBuffer(page_bytes * n_pages);
  } catch (const std::bad_alloc&) {
    throw Error(
        fmt::format("No memory for {} more bytes of context. Use a smaller --context, or "
                    "--kv q8_0.",
                    page_bytes * n_pages));
  }
  std::byte* next = block.get();
  for (Layer& layer : layers_) {
    layer.key_pages.push_back(next);
    layer.value_pages.push_back(next + page_bytes);
    next += 2 * page_bytes;
  }
  storage_.push_back(std::move(block));
  const Slot first = static_cast<Slot>(n_users_.size());
  n_users_.resize(n_users_.size() + kPageSlots, 0);
  free_.reserve(n_users_.size());
  for (Slot slot = first + kPageSlots; slot-- > first;) free_.push_back(slot);
}

Slot KvCache::take() {
  if (free_.empty()) grow();
  const Slot slot = free_.back();
  free_.pop_back();
  n_users_[slot] = 1;
  ++n_taken_;
  return slot;
}

void KvCache::release(Slot slot) {
  TROIKA_ASSERT(n_users_[slot] > 0);
  if (--n_users_[slot] > 0) return;
  free_.push_back(slot);
  --n_taken_;
}

void KvCache::place(const Batch& batch, Placement* placement) {
  const auto n_rows = static_cast<size_t>(batch.size());
  if (batch.size() > n_free()) {
    throw Error(
        fmt::format("The context of {} tokens is full: {} more do not fit. Use a larger "
                    "--context or a shorter text.",
                    shape_.most_slots, batch.size() - n_free()));
  }
  placement->slots.clear();
  placement->visible.clear();
  placement->tree.clear();
  placement->slots.reserve(n_rows);
  while (free_.size() < n_rows) grow();  // may throw; nothing is taken yet
  for (size_t row = 0; row < n_rows; ++row) placement->slots.push_back(take());

  // Two passes, because `tree` must not move once rows point into it.
  std::vector<size_t> tree_begin(n_rows, 0);
  std::vector<int> chain_root(n_rows, 0);
  for (size_t row = 0; row < n_rows; ++row) {
    const int parent = batch.rows[row].parent;
    TROIKA_ASSERT(parent < static_cast<int>(row));
    TROIKA_ASSERT(parent < 0 ||
                  batch.rows[static_cast<size_t>(parent)].sequence == batch.rows[row].sequence);
    if (parent < 0) {
      chain_root[row] = static_cast<int>(row);
      continue;
    }
    const bool in_chain = continues_chain(batch, static_cast<int>(row)) && chain_root[row - 1] >= 0;
    chain_root[row] = in_chain ? chain_root[row - 1] : -1;
    if (in_chain) continue;
    tree_begin[row] = placement->tree.size();
    for (int i = static_cast<int>(row); i >= 0; i = batch.rows[static_cast<size_t>(i)].parent) {
      placement->tree.push_back(placement->slots[static_cast<size_t>(i)]);
    }
    std::reverse(placement->tree.begin() + static_cast<ptrdiff_t>(tree_begin[row]),
                 placement->tree.end());
  }
  size_t tree_end = placement->tree.size();
  placement->visible.resize(n_rows);
  for (size_t row = n_rows; row-- > 0;) {
    const std::vector<Slot>& past = sequence_of(batch.rows[row].sequence);
    std::span<const Slot> own;
    if (chain_root[row] >= 0) {
      const auto root = static_cast<size_t>(chain_root[row]);
      own = std::span<const Slot>(placement->slots).subspan(root, row - root + 1);
    } else {
      own = std::span<const Slot>(placement->tree)
                .subspan(tree_begin[row], tree_end - tree_begin[row]);
      tree_end = tree_begin[row];
    }
    TROIKA_ASSERT(batch.rows[row].position + 1 == static_cast<int>(past.size() + own.size()));
    placement->visible[row] = {past, own};
  }
}

void KvCache::keep(const Batch& batch, const Placement& placement, std::span<const int> rows) {
  for (const int row : rows) {
    const auto index = static_cast<size_t>(row);
    const Slot slot = placement.slots[index];
    std::vector<Slot>& sequence = sequence_of(batch.rows[index].sequence);
    TROIKA_ASSERT(batch.rows[index].position == static_cast<int>(sequence.size()));
    sequence.push_back(slot);
    ++n_users_[slot];
  }
  drop(placement);
}

void KvCache::keep_all(const Batch& batch, const Placement& placement) {
  std::vector<int> rows(placement.slots.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int>(i);
  keep(batch, placement, rows);
}

void KvCache::drop(const Placement& placement) {
  for (size_t i = placement.slots.size(); i-- > 0;) release(placement.slots[i]);
}

int KvCache::length(SequenceId sequence) const {
  const auto found = sequences_.find(sequence);
  return found == sequences_.end() ? 0 : static_cast<int>(found->second.size());
}

void KvCache::truncate(SequenceId sequence, int length) {
  std::vector<Slot>& slots = sequence_of(sequence);
  TROIKA_ASSERT(length >= 0);
  while (static_cast<int>(slots.size()) > length) {
    release(slots.back());
    slots.pop_back();
  }
}

void KvCache::fork(SequenceId from, SequenceId to, int length) {
  TROIKA_ASSERT(from != to && length >= 0 && length <= this->length(from));
  truncate(to, 0);
  std::vector<Slot>& target = sequence_of(to);  // first: it may move the map's nodes' table
  const std::vector<Slot>& source = sequence_of(from);
  target.assign(source.begin(), source.begin() + length);
  for (const Slot slot : target) ++n_users_[slot];
}

size_t KvCache::bytes() const { return storage_.size() * shape_.bytes_per_token() * kPageSlots; }

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
