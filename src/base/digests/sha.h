// SHA-1 and SHA-256 (FIPS 180-4), for files whose hash somebody else has published.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troika {

// Either of the two, where it is known only at run time which one is wanted.
class Sha {
 public:
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  // Returns the hash of all added bytes, as hexadecimal digits: 64, or 40 of SHA-1. Nothing can be
  // added afterwards.
  std::string hex();

 protected:
  Sha(const std::array<uint32_t, 8>& start, size_t n_words) : state_(start), n_words_(n_words) {}

 private:
  static constexpr size_t kBlock = 64;
  void add_block(const std::byte* block);

  std::array<uint32_t, 8> state_;
  size_t n_words_;                           // of the state: 5 or 8
  std::array<std::byte, kBlock> rest_ = {};  // bytes that do not fill a block yet
  uint64_t n_bytes_ = 0;
};

class Sha256 : public Sha {
 public:
  Sha256()
      : Sha({0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
             0x5be0cd19},
            8) {}
};

// Two texts of one SHA-1 can be made on purpose. It tells versions of a file apart, and is no proof
// against somebody who means harm.
class Sha1 : public Sha {
 public:
  Sha1() : Sha({0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}, 5) {}
};

}  // namespace troika
