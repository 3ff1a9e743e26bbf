// Walks over untrusted little-endian bytes; every step is checked.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace troika::gguf {

static_assert(std::endian::native == std::endian::little,
              "numbers are read from the map as they stand");

class Cursor {
 public:
  // `name` is the file's, for messages; it must outlive the cursor.
  Cursor(std::span<const std::byte> bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  std::string_view name() const { return name_; }

  // Reads a number. If the bytes end here, `what` stands in the message.
  template <typename T>
  T read(std::string_view what) {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> take(uint64_t n_bytes, std::string_view what) {
    if (n_bytes > remaining()) fail_at_end(what);
    const auto taken = bytes_.subspan(position_, n_bytes);
    position_ += n_bytes;
    return taken;
  }
  // Reads a 64-bit length and that many bytes.
  std::string_view read_string(std::string_view what) {
    const auto length = read<uint64_t>(what);
    const auto taken = take(length, what);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

 private:
  [[noreturn]] void fail_at_end(std::string_view what) const;

  std::span<const std::byte> bytes_;
  std::string_view name_;
  uint64_t position_ = 0;
};

}  // namespace troika::gguf
