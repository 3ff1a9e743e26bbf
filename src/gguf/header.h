// Reads and checks everything in a GGUF file that stands before the tensor data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "gguf/file.h"

namespace troika::gguf {

struct Header {
  uint32_t version = 0;
  uint64_t alignment = 32;
  uint64_t data_offset = 0;  // counts from the start of the file
  std::vector<File::Entry> metadata;
  std::vector<TensorInfo> tensors;
  // These are no hash tables, because whoever makes a file could choose names of one hash, and each
  // would be compared with all.
  std::map<std::string_view, size_t> entry_by_key;
  std::map<std::string_view, size_t> tensor_by_name;
};

// Throws Error; `name` stands in the message.
Header read_header(std::span<const std::byte> bytes, std::string_view name);

}  // namespace troika::gguf
