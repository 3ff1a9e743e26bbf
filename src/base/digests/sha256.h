// SHA-256 (FIPS 180-4), for files whose hash somebody else has published.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troika {

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  // Returns the hash of all added bytes, as 64 hexadecimal digits. Nothing can be added afterwards.
  std::string hex();

 private:
  static constexpr size_t kBlock = 64;
  void add_block(const std::byte* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlock> rest_ = {};  // bytes that do not fill a block yet
  uint64_t n_bytes_ = 0;
};

}  // namespace troika
