// Finds where the key or value of a slot lies.
#pragma once

#include "kernels/kernels.h"

namespace troika::kernels {

inline const std::byte* kv_row(const KvView& view, uint32_t slot) {
  const uint32_t in_page = slot & ((1u << view.page_slots_log2) - 1);
  return view.pages[slot >> view.page_slots_log2] + in_page * view.slot_bytes +
         view.head_offset_bytes;
}

// Returns the i-th visible slot of the two lists joined.
inline uint32_t visible_slot(const Attention& args, size_t i) {
  return i < args.prefix.size() ? args.prefix[i] : args.own[i - args.prefix.size()];
}

}  // namespace troika::kernels
