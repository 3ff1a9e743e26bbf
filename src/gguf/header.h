// Reads and checks everything in a GGUF file that stands before the tensor data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gguf/file.h"

namespace troika::gguf {

struct Header {
  uint32_t version = 0;
  uint64_t alignment = 32;
  uint64_t data_offset = 0;  // counts from the start of the file
  std::vector<File::Entry> metadata;
  std::vector<TensorInfo> tensors;
  std::unordered_map<std::string_view, size_t> entry_by_key;
  std::unordered_map<std::string_view, size_t> tensor_by_name;
};

// Throws Error; `name` stands in the message.
Header read_header(std::span<const std::byte> bytes, std::string_view name);

}  // namespace troika::gguf
