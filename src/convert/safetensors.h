// A safetensors file, read through a memory map. Its bytes are untrusted: when a SafetensorsFile
// exists, the header's length and every name, type, shape product and offset has been checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/type.h"

namespace troika {
class MappedFile;
}

namespace troika::convert {

struct SourceTensor {
  std::string name;
  std::string dtype;            // the type's name in the file
  std::vector<uint64_t> shape;  // in the file's order: the last one is the length of a row
  std::span<const std::byte> data;

  uint64_t row_length() const { return shape.empty() ? 1 : shape.back(); }
  // The product cannot overflow: it was checked when the file was read.
  uint64_t n_elements() const {
    uint64_t n = 1;
    for (const uint64_t length : shape) n *= length;
    return n;
  }
};

// Returns the type of a tensor: F32, F16 or BF16. For other types, throws an Error that names the
// tensor and `file`.
tensor::Type source_type(const SourceTensor& tensor, std::string_view file);

class SafetensorsFile {
 public:
  // Maps the file. Throws Error for whatever is wrong with it.
  static SafetensorsFile open(const std::string& path);
  // Reads bytes in memory, which must outlive the result; `name` stands in messages.
  static SafetensorsFile parse(std::span<const std::byte> bytes, std::string name);

  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }
  // Returns the tensors in the order of the header.
  std::span<const SourceTensor> tensors() const { return tensors_; }
  // Throws an Error if the file was cut short while it was mapped.
  void check_intact() const;

 private:
  SafetensorsFile();
  void read(std::span<const std::byte> bytes);

  std::string path_;
  uint64_t file_bytes_ = 0;
  std::unique_ptr<MappedFile> map_;  // null where the bytes were given
  std::vector<SourceTensor> tensors_;
};

}  // namespace troika::convert
