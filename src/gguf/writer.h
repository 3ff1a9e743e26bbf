// Writes a GGUF version 3 file: first all metadata and tensor descriptions, then the data in order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/value.h"
#include "tensor/type.h"

namespace troika::gguf {

// Limits the alignment of files that are written: it is the largest page of any processor.
inline constexpr uint64_t kMostWrittenAlignment = uint64_t{1} << 16;

// Writes a file that appears under its name only when `finish` has returned (it is written beside
// it and renamed). An error or an abandoned writer leaves nothing behind. Adding a key or a tensor
// twice is a bug.
class Writer {
 public:
  // Throws Error where the path cannot be written. `alignment` is a power of two, at most
  // kMostWrittenAlignment.
  explicit Writer(std::string path, uint64_t alignment = 32);
  // Makes a writer that writes nowhere, for `header` alone.
  Writer();
  ~Writer();

  void add_uint32(std::string_view key, uint32_t value);
  void add_uint64(std::string_view key, uint64_t value);
  void add_float32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string> values);
  void add_floats(std::string_view key, std::span<const float> values);
  void add_int32s(std::string_view key, std::span<const int32_t> values);
  // Copies a value of another file as it is. The key general.alignment must be skipped, because the
  // writer sets its own.
  void add_value(std::string_view key, const Value& value);

  // Describes a tensor of a supported type whose rows are whole blocks; the data must follow in the
  // order of these calls.
  void add_tensor(std::string_view name, tensor::Type type, std::span<const uint64_t> shape);
  // Ends the descriptions and writes the header.
  void begin_data();
  // Ends the descriptions of a writer that writes nowhere. Returns what stands before the data, and
  // tells how long the data would be. The first tensor begins where the header ends.
  std::string header(uint64_t* data_bytes);
  // Writes the next bytes. They may be cut anywhere, within a tensor or across several.
  void write(std::span<const std::byte> bytes);
  // Checks that every tensor is complete, flushes to the disk, and renames the file.
  void finish();

  uint64_t bytes_written() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troika::gguf
