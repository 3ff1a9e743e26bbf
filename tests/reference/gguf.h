// The reference's own reader of GGUF files. It holds the whole file in memory, and all metadata in
// a map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troika::reference {

// A metadata value. Its type in the file decides which member is filled. Numbers of every kind, and
// booleans, are doubles here.
struct Value {
  double number = 0;
  std::string text;
  std::vector<double> numbers;
  std::vector<std::string> texts;
};

struct Tensor {
  uint32_t type = 0;            // is the number that stands in the file
  std::vector<uint64_t> shape;  // shape[0] is the length of a row
  uint64_t offset = 0;          // counts bytes from the first one of the file
};

struct Gguf {
  std::vector<uint8_t> bytes;
  std::map<std::string, Value> metadata;
  std::map<std::string, Tensor> tensors;

  bool has(const std::string& key) const { return metadata.count(key) != 0; }
  // Return a metadata value. Where the key is missing they return `otherwise`, or throw if none is
  // given.
  double number(const std::string& key) const;
  double number(const std::string& key, double otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;

  // Return the tensor's elements, decoded, in the order of the file. Where the tensor is missing,
  // `required` throws and `optional` returns no elements.
  std::vector<double> required(const std::string& name) const;
  std::vector<double> optional(const std::string& name) const;
};

// Parse a GGUF file. They throw std::runtime_error where the bytes are none of version 2 or 3.
Gguf parse_gguf(std::vector<uint8_t> bytes);
Gguf read_gguf(const std::string& path);

}  // namespace troika::reference
