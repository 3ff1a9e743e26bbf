// FNV-1a with 64 bits: enough to notice changed content, but not to withstand an attacker who knows
// where it begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>

namespace troika {

class Fnv {
 public:
  Fnv() = default;
  explicit Fnv(uint64_t begin) : value_(begin) {}
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

// Hashes names that strangers have chosen, for tables. It begins elsewhere in each process, so that
// nobody can choose names which all have one hash.
struct HashOfNames {
  size_t operator()(std::string_view name) const {
    static const uint64_t begin = uint64_t{std::random_device()()} << 32 | std::random_device()();
    Fnv hash(begin);
    hash.add(name);
    return static_cast<size_t>(hash.value());
  }
};

}  // namespace troika
