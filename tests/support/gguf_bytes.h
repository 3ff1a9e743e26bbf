// Puts a GGUF file of version 3 together in memory, for tests. It includes nothing from src/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troika::test_support {

class GgufBytes {
 public:
  void add_uint32(const std::string& key, uint32_t value);
  void add_float32(const std::string& key, float value);
  void add_bool(const std::string& key, bool value);
  void add_string(const std::string& key, const std::string& value);
  void add_strings(const std::string& key, const std::vector<std::string>& values);
  void add_floats(const std::string& key, const std::vector<float>& values);
  void add_int32s(const std::string& key, const std::vector<int32_t>& values);

  // Adds a tensor. shape[0] is the length of a row; `data` holds the encoded rows.
  void add_tensor(const std::string& name, uint32_t type, const std::vector<uint64_t>& shape,
                  const std::vector<uint8_t>& data);

  // Returns the whole file: header, metadata, descriptions, and data aligned to 32 bytes.
  std::vector<uint8_t> finish() const;

 private:
  uint64_t n_entries_ = 0, n_tensors_ = 0;
  std::vector<uint8_t> entries_, descriptions_, data_;
};

}  // namespace troika::test_support
