#include "cache/kv_rows.h"

#include <cstring>

#include "base/error.h"

namespace troika::cache {
namespace {

// Calls `visit` with each head's row of each slot, in the order in which the bytes of a copy lie.
template <typename Visit>
void for_each_row(KvCache& kv, std::span<const Slot> slots, Visit visit) {
  const KvShape& shape = kv.shape();
  for (int layer = 0; layer < shape.n_layers; ++layer) {
    for (int head = 0; head < shape.n_kv_heads; ++head) {
      for (const Slot slot : slots) visit(kv.key_row(layer, slot, head));
      for (const Slot slot : slots) visit(kv.value_row(layer, slot, head));
    }
  }
}

}  // namespace

size_t rows_bytes(const KvShape& shape, int n_tokens) {
  return shape.bytes_per_token() * static_cast<size_t>(n_tokens);
}

void copy_rows(KvCache& kv, SequenceId sequence, int first, int n_tokens,
               std::span<std::byte> rows) {
  TROIKA_ASSERT(rows.size() == rows_bytes(kv.shape(), n_tokens));
  const std::span<const Slot> slots =
      kv.slots(sequence).subspan(static_cast<size_t>(first), static_cast<size_t>(n_tokens));
  const size_t bytes = kv.shape().head_bytes();
  std::byte* next = rows.data();
  for_each_row(kv, slots, [&](const std::byte* row) {
    std::memcpy(next, row, bytes);
    next += bytes;
  });
}

void append_rows(KvCache& kv, SequenceId sequence, std::span<const Token> tokens,
                 std::span<const Tag> tags, std::span<const std::byte> rows) {
  TROIKA_ASSERT(tags.size() == tokens.size());
  TROIKA_ASSERT(rows.size() == rows_bytes(kv.shape(), static_cast<int>(tokens.size())));
  Batch batch;
  batch.add_chain(tokens, kv.length(sequence), sequence);
  for (size_t i = 0; i < tags.size(); ++i) batch.rows[i].tag = tags[i];
  PlacedBatch placed;
  kv.place(batch, &placed);
  const size_t bytes = kv.shape().head_bytes();
  const std::byte* next = rows.data();
  for_each_row(kv, placed.slots, [&](std::byte* row) {
    std::memcpy(row, next, bytes);
    next += bytes;
  });
  kv.keep_all(batch, placed);
}

}  // namespace troika::cache
