// Builds GGUF files byte by byte, also wrong ones. It does not use the writer, which it helps to
// test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troika::test {

class RawGgufBytes {
 public:
  RawGgufBytes& magic(std::string_view text) { return raw(text); }
  RawGgufBytes& u8(uint8_t value) { return number(value); }
  RawGgufBytes& u32(uint32_t value) { return number(value); }
  RawGgufBytes& u64(uint64_t value) { return number(value); }
  RawGgufBytes& f32(float value) { return number(value); }
  RawGgufBytes& raw(std::string_view text) {
    bytes_.append(text);
    return *this;
  }
  RawGgufBytes& string(std::string_view text) { return u64(text.size()).raw(text); }
  RawGgufBytes& zeros(size_t n) {
    bytes_.append(n, '\0');
    return *this;
  }
  RawGgufBytes& pad(size_t alignment) {
    return zeros((alignment - bytes_.size() % alignment) % alignment);
  }

  RawGgufBytes& header(uint32_t version, uint64_t n_tensors, uint64_t n_entries) {
    return magic("GGUF").u32(version).u64(n_tensors).u64(n_entries);
  }
  RawGgufBytes& entry(std::string_view key, uint32_t type) { return string(key).u32(type); }
  // Adds twelve entries: one value of each type but arrays.
  RawGgufBytes& scalar_entries() {
    entry("u8", 0).u8(200);
    entry("i8", 1).u8(0xff);
    entry("u16", 2).raw("\x01\x02");
    entry("i16", 3).raw("\xfe\xff");
    entry("u32", 4).u32(4000000000u);
    entry("i32", 5).u32(static_cast<uint32_t>(-7));
    entry("f32", 6).f32(1.5f);
    entry("bool", 7).u8(1);
    entry("string", 8).string("text");
    entry("u64", 10).u64(UINT64_MAX);
    entry("i64", 11).u64(static_cast<uint64_t>(-9));
    return entry("f64", 12).u64(0x4004000000000000u);  // 2.5
  }
  RawGgufBytes& tensor(std::string_view name, std::initializer_list<uint64_t> shape, uint32_t type,
                       uint64_t offset) {
    string(name).u32(static_cast<uint32_t>(shape.size()));
    for (const uint64_t length : shape) u64(length);
    return u32(type).u64(offset);
  }

  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }
  const std::string& text() const { return bytes_; }

 private:
  template <typename T>
  RawGgufBytes& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  std::string bytes_;
};

}  // namespace troika::test
