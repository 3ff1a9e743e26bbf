// Fits a context to the memory of a device: keys and values of all texts lie in one piece of it.
#pragma once

#include <cstddef>
#include <string>

#include "cache/kv_cache.h"

namespace troika::engine {

struct DeviceRoom {
  std::string lane;   // the lane whose device owns the memory
  size_t most_bytes;  // the longest piece that it gives
  bool may_be_less;   // nobody asked for this context
};

// Returns how many tokens of this context a device has room for: all of them, or fewer where that
// may be. Throws Error, with what to do, where it has no such piece. `shape` is that of one text.
int context_within(const cache::KvShape& shape, const DeviceRoom& room);

}  // namespace troika::engine
