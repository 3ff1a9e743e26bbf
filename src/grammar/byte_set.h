// A set of bytes.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>

namespace troika::grammar {

struct ByteSet {
  std::array<uint64_t, 4> words{};

  static ByteSet range(int first, int last) {
    ByteSet set;
    for (int b = first; b <= last; ++b) set.add(static_cast<uint8_t>(b));
    return set;
  }
  static ByteSet of(uint8_t byte) { return range(byte, byte); }
  static ByteSet all() { return range(0, 255); }

  void add(uint8_t byte) { words[byte >> 6] |= uint64_t{1} << (byte & 63); }
  bool has(uint8_t byte) const { return (words[byte >> 6] >> (byte & 63) & 1) != 0; }
  bool empty() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
  int size() const {
    int n = 0;
    for (const uint64_t word : words) n += std::popcount(word);
    return n;
  }
  ByteSet operator|(const ByteSet& other) const {
    ByteSet set;
    for (size_t i = 0; i < 4; ++i) set.words[i] = words[i] | other.words[i];
    return set;
  }
  auto operator<=>(const ByteSet&) const = default;
};

}  // namespace troika::grammar
