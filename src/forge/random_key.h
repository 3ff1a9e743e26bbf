// Makes a key for random_bits() from a seed and a name.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/random.h"

namespace troika::forge {

inline uint64_t random_key(uint64_t seed, std::string_view name) {
  uint64_t key = random_bits(seed, 0);
  for (const char c : name) key = random_bits(key, static_cast<unsigned char>(c));
  return key;
}

}  // namespace troika::forge
