// FNV-1a with 64 bits: enough to notice changed content, but not to withstand an attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace troika {

class Fnv {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) value_ = (value_ ^ std::to_integer<uint64_t>(b)) * kPrime;
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  // Adds a number, little end first whatever the machine.
  void add(uint64_t number) {
    for (int i = 0; i < 8; ++i) value_ = (value_ ^ (number >> (8 * i) & 0xff)) * kPrime;
  }
  uint64_t value() const { return value_; }

 private:
  static constexpr uint64_t kPrime = 0x100000001B3u;
  uint64_t value_ = 0xCBF29CE484222325u;
};

inline uint64_t hash_of(std::span<const std::byte> bytes) {
  Fnv hash;
  hash.add(bytes);
  return hash.value();
}
inline uint64_t hash_of(std::string_view text) { return hash_of(std::as_bytes(std::span(text))); }

}  // namespace troika
