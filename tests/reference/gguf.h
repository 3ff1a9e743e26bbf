// The reference's own reader of GGUF files: the whole file in memory, all metadata in a map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troika::reference {

// One metadata value; which member is filled follows from its type in the file. Numbers of every
// kind, and booleans, are doubles here.
struct Value {
  double number = 0;
  std::string text;
  std::vector<double> numbers;
  std::vector<std::string> texts;
};

struct Tensor {
  uint32_t type = 0;            // as in the file
  std::vector<uint64_t> shape;  // shape[0] is the length of a row
  uint64_t offset = 0;          // from the first byte of the file
};

struct Gguf {
  std::vector<uint8_t> bytes;
  std::map<std::string, Value> metadata;
  std::map<std::string, Tensor> tensors;

  bool has(const std::string& key) const { return metadata.count(key) != 0; }
  // `number` throws where the key is missing; the others return `otherwise` then.
  double number(const std::string& key) const;
  double number(const std::string& key, double otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;

  // The tensor's elements in the order of the file, decoded. Throws where it is missing, except
  // `optional`, which is empty then.
  std::vector<double> required(const std::string& name) const;
  std::vector<double> optional(const std::string& name) const;
};

// Both throw std::runtime_error where the bytes are not a GGUF file of version 2 or 3.
Gguf parse_gguf(std::vector<uint8_t> bytes);
Gguf read_gguf(const std::string& path);

}  // namespace troika::reference
