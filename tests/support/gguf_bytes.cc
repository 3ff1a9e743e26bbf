#include "tests/support/gguf_bytes.h"

#include <cstring>

namespace troika::test_support {
namespace {

enum ValueType : uint32_t {
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9
};
constexpr size_t kAlignment = 32;

template <typename T>
void put(std::vector<uint8_t>& out, T value) {
  uint8_t bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

void put_string(std::vector<uint8_t>& out, const std::string& text) {
  put<uint64_t>(out, text.size());
  out.insert(out.end(), text.begin(), text.end());
}

void put_array(std::vector<uint8_t>& out, ValueType element_type, uint64_t count) {
  put<uint32_t>(out, kArray);
  put<uint32_t>(out, element_type);
  put<uint64_t>(out, count);
}

void align(std::vector<uint8_t>& out) {
  while (out.size() % kAlignment != 0) out.push_back(0);
}

}  // namespace

void GgufBytes::add_uint32(const std::string& key, uint32_t value) {
  ++n_entries_;
  put_string(entries_, key);
  put<uint32_t>(entries_, kUint32);
  put(entries_, value);
}

void GgufBytes::add_float32(const std::string& key, float value) {
  ++n_entries_;
  put_string(entries_, key);
  put<uint32_t>(entries_, kFloat32);
  put(entries_, value);
}

void GgufBytes::add_bool(const std::string& key, bool value) {
  ++n_entries_;
  put_string(entries_, key);
  put<uint32_t>(entries_, kBool);
  put<uint8_t>(entries_, value);
}

void GgufBytes::add_string(const std::string& key, const std::string& value) {
  ++n_entries_;
  put_string(entries_, key);
  put<uint32_t>(entries_, kString);
  put_string(entries_, value);
}

void GgufBytes::add_strings(const std::string& key, const std::vector<std::string>& values) {
  ++n_entries_;
  put_string(entries_, key);
  put_array(entries_, kString, values.size());
  for (const std::string& value : values) put_string(entries_, value);
}

void GgufBytes::add_floats(const std::string& key, const std::vector<float>& values) {
  ++n_entries_;
  put_string(entries_, key);
  put_array(entries_, kFloat32, values.size());
  for (float value : values) put(entries_, value);
}

void GgufBytes::add_int32s(const std::string& key, const std::vector<int32_t>& values) {
  ++n_entries_;
  put_string(entries_, key);
  put_array(entries_, kInt32, values.size());
  for (int32_t value : values) put(entries_, value);
}

void GgufBytes::add_tensor(const std::string& name, uint32_t type,
                           const std::vector<uint64_t>& shape, const std::vector<uint8_t>& data) {
  ++n_tensors_;
  put_string(descriptions_, name);
  put<uint32_t>(descriptions_, shape.size());
  for (uint64_t length : shape) put(descriptions_, length);
  put(descriptions_, type);
  put<uint64_t>(descriptions_, data_.size());
  data_.insert(data_.end(), data.begin(), data.end());
  align(data_);
}

std::vector<uint8_t> GgufBytes::finish() const {
  std::vector<uint8_t> file;
  put<uint32_t>(file, 0x46554747);  // spells "GGUF"
  put<uint32_t>(file, 3);
  put(file, n_tensors_);
  put(file, n_entries_);
  file.insert(file.end(), entries_.begin(), entries_.end());
  file.insert(file.end(), descriptions_.begin(), descriptions_.end());
  align(file);
  file.insert(file.end(), data_.begin(), data_.end());
  return file;
}

}  // namespace troika::test_support
