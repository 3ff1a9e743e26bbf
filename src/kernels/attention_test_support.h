// Makes caches of random keys or values for tests of attention.
#pragma once

#include <algorithm>
#include <numeric>

#include "kernels/test_support.h"

namespace troika::kernels {

inline constexpr Type kCacheTypes[] = {Type::kF32, Type::kF16, Type::kQ8_0};
inline constexpr uint32_t kPageLog2 = 4;  // means 16 slots
inline constexpr size_t kKvHeads = 2;

// A cache of pages, with a random row for each slot and head.
struct TestCache {
  std::vector<std::vector<std::byte>> pages;
  std::vector<const std::byte*> pointers;
  KvView view;

  TestCache(const Table& table, Type type, size_t head_size, size_t n_slots, uint32_t seed) {
    const size_t head_bytes = tensor::row_bytes(type, head_size);
    view.page_slots_log2 = kPageLog2;
    view.slot_bytes = head_bytes * kKvHeads;
    view.type = type;
    const size_t n_pages = (n_slots >> kPageLog2) + 1;
    const size_t page_rows = (size_t{1} << kPageLog2) * kKvHeads;
    for (size_t p = 0; p < n_pages; ++p) {
      std::vector<std::byte> page(page_rows * head_bytes);
      for (size_t i = 0; i < page_rows; ++i) {
        const auto x = random_floats(head_size, seed++);
        table.store_kv(type, x.data(), page.data() + i * head_bytes, head_size);
      }
      pages.push_back(std::move(page));
    }
    for (const auto& page : pages) pointers.push_back(page.data());
    view.pages = pointers.data();
  }

  KvView head(size_t h) const {
    KvView result = view;
    result.head_offset_bytes = view.slot_bytes / kKvHeads * h;
    return result;
  }
};

// Returns the arguments of attention of n_heads to the second head of keys, without the positions
// and the place for results.
inline Attention attention_of(const std::vector<float>& q, size_t n_heads, size_t head_size,
                              const TestCache& k, const TestCache& v) {
  Attention args;
  args.q = q.data();
  args.q_stride = args.out_stride = head_size;
  args.n_heads = static_cast<uint32_t>(n_heads);
  args.head_size = static_cast<uint32_t>(head_size);
  args.k = k.head(1);
  args.v = v.head(1);
  return args;
}

inline std::vector<uint32_t> shuffled_slots(size_t n) {
  std::vector<uint32_t> slots(n);
  std::iota(slots.begin(), slots.end(), 0u);
  std::mt19937 random(11);
  std::shuffle(slots.begin(), slots.end(), random);
  return slots;
}

}  // namespace troika::kernels
