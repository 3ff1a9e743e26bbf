// Attention of one token over cached keys and values: the arguments of its kernels, in steps of a
// few tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/type.h"

namespace troika::kernels {

using tensor::Type;

// Where the keys or values of one head lie: in pages of 2^page_slots_log2 slots each. The row of
// slot s starts at pages[s >> log2] + (s & mask) * slot_bytes + head_offset_bytes.
struct KvView {
  const std::byte* const* pages = nullptr;
  uint32_t page_slots_log2 = 0;
  size_t slot_bytes = 0;
  size_t head_offset_bytes = 0;
  Type type = Type::kF32;  // F32, F16 or Q8_0 (then the head size is a multiple of 32)
};

// Attention of one token and one key/value head: out[h] = softmax(score(q[h], K)) V for the query
// heads h that share it. Here score = scale * (q . k), or soft_cap * tanh(scale * (q . k) /
// soft_cap) if soft_cap > 0.
struct Attention {
  const float* q = nullptr;  // (n_heads, head_size)
  size_t q_stride = 0;
  uint32_t n_heads = 0;
  uint32_t head_size = 0;
  KvView k;
  KvView v;  // rows of the same head_size
  // Visible slots in the order of their positions: first `prefix`, then `own`. Sums are split at
  // multiples of kAttentionBlock of the joined list, and begun anew at multiples of
  // kAttentionSegment; it makes no difference where `prefix` ends. With no slot at all, out is
  // zero.
  std::span<const uint32_t> prefix;
  std::span<const uint32_t> own;
  float scale = 1.0f;
  float soft_cap = 0.0f;
  float* out = nullptr;  // (n_heads, head_size)
  size_t out_stride = 0;
};
inline constexpr size_t kAttentionBlock = 64;
// Counts the positions of a segment: a whole number of blocks.
inline constexpr size_t kAttentionSegment = 512;
inline constexpr size_t kMaxHeadSize = 512;

inline size_t n_attention_segments(const Attention& args) {
  return (args.prefix.size() + args.own.size() + kAttentionSegment - 1) / kAttentionSegment;
}
// Returns the length of a segment's result for one query head: the largest score, the sum of
// e^(score - largest), and the values weighed by these (head_size floats).
constexpr size_t attention_part_floats(uint32_t head_size) { return 2 + size_t{head_size}; }

}  // namespace troika::kernels
