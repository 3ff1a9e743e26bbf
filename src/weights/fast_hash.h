// A hash for the content of side files: it notices damage, but does not withstand an attacker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace troika::weights {

// Hashes words of 8 bytes in four rows, so that the multiplications do not wait for each other.
class FastHash {
 public:
  void add(std::span<const std::byte> bytes) {
    size_t i = 0;
    for (; i + 32 <= bytes.size(); i += 32) {
      uint64_t words[4];
      std::memcpy(words, bytes.data() + i, 32);
      for (int row = 0; row < 4; ++row) mix(row, words[row]);
    }
    for (int row = 0; i < bytes.size(); i += 8, row = (row + 1) % 4) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
      mix(row, word);
    }
    n_ += bytes.size();
  }
  uint64_t value() const {
    uint64_t value = n_;
    for (const uint64_t row : rows_) {
      value = (value ^ row ^ row >> 32) * 0x9E3779B97F4A7C15u;
      value ^= value >> 29;
    }
    return value;
  }

 private:
  void mix(int row, uint64_t word) {
    rows_[row] = (rows_[row] ^ word) * 0xD6E8FEB86659FD93u;
    rows_[row] ^= rows_[row] >> 31;
  }
  uint64_t rows_[4] = {1, 2, 3, 4};
  uint64_t n_ = 0;
};

inline uint64_t fast_hash(std::span<const std::byte> bytes) {
  FastHash hash;
  hash.add(bytes);
  return hash.value();
}

}  // namespace troika::weights
