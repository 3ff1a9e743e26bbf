#include "tests/reference/gguf.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/reference/decode.h"

namespace troika::reference {
namespace {

// Walks the file from the front; every read checks that the bytes are there.
class Cursor {
 public:
  explicit Cursor(const std::vector<uint8_t>& bytes) : bytes_(bytes) {}

  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, skip(sizeof(T)), sizeof(T));
    return value;
  }

  std::string take_string() {
    const uint64_t length = take<uint64_t>();
    const uint8_t* begin = skip(length);
    return std::string(begin, begin + length);
  }

  uint64_t position() const { return position_; }

 private:
  const uint8_t* skip(uint64_t count) {
    if (count > bytes_.size() - position_) throw std::runtime_error("the GGUF file is cut short");
    const uint8_t* here = bytes_.data() + position_;
    position_ += count;
    return here;
  }

  const std::vector<uint8_t>& bytes_;
  uint64_t position_ = 0;
};

constexpr uint32_t kString = 8, kArray = 9;

double take_number(Cursor& cursor, uint32_t type) {
  switch (type) {
    case 0:
      return cursor.take<uint8_t>();
    case 1:
      return cursor.take<int8_t>();
    case 2:
      return cursor.take<uint16_t>();
    case 3:
      return cursor.take<int16_t>();
    case 4:
      return cursor.take<uint32_t>();
    case 5:
      return cursor.take<int32_t>();
    case 6:
      return cursor.take<float>();
    case 7:
      return cursor.take<uint8_t>();  // is a boolean
    case 10:
      return static_cast<double>(cursor.take<uint64_t>());
    case 11:
      return static_cast<double>(cursor.take<int64_t>());
    case 12:
      return cursor.take<double>();
  }
  throw std::runtime_error("unknown type of a metadata value: " + std::to_string(type));
}

Value take_value(Cursor& cursor) {
  Value value;
  const uint32_t type = cursor.take<uint32_t>();
  if (type == kString) {
    value.text = cursor.take_string();
  } else if (type == kArray) {
    const uint32_t element_type = cursor.take<uint32_t>();
    const uint64_t count = cursor.take<uint64_t>();
    for (uint64_t i = 0; i < count; ++i) {
      if (element_type == kString) {
        value.texts.push_back(cursor.take_string());
      } else {
        value.numbers.push_back(take_number(cursor, element_type));
      }
    }
  } else {
    value.number = take_number(cursor, type);
  }
  return value;
}

}  // namespace

Gguf parse_gguf(std::vector<uint8_t> bytes) {
  Gguf file;
  file.bytes = std::move(bytes);
  Cursor cursor(file.bytes);
  // The number spells "GGUF".
  if (cursor.take<uint32_t>() != 0x46554747) throw std::runtime_error("not a GGUF file");
  const uint32_t version = cursor.take<uint32_t>();
  if (version != 2 && version != 3) throw std::runtime_error("not GGUF version 2 or 3");
  const uint64_t n_tensors = cursor.take<uint64_t>();
  const uint64_t n_entries = cursor.take<uint64_t>();
  for (uint64_t i = 0; i < n_entries; ++i) {
    const std::string key = cursor.take_string();
    file.metadata[key] = take_value(cursor);
  }
  for (uint64_t i = 0; i < n_tensors; ++i) {
    Tensor& tensor = file.tensors[cursor.take_string()];
    tensor.shape.resize(cursor.take<uint32_t>());
    for (uint64_t& length : tensor.shape) length = cursor.take<uint64_t>();
    tensor.type = cursor.take<uint32_t>();
    tensor.offset = cursor.take<uint64_t>();
  }
  // The data begins at the next multiple of the alignment; offsets count from there.
  const uint64_t alignment = static_cast<uint64_t>(file.number("general.alignment", 32));
  const uint64_t data = (cursor.position() + alignment - 1) / alignment * alignment;
  for (auto& [name, tensor] : file.tensors) tensor.offset += data;
  return file;
}

Gguf read_gguf(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot open " + path);
  return parse_gguf(std::vector<uint8_t>(std::istreambuf_iterator<char>(stream), {}));
}

double Gguf::number(const std::string& key) const {
  if (!has(key)) throw std::runtime_error("the file has no " + key);
  return metadata.at(key).number;
}

double Gguf::number(const std::string& key, double otherwise) const {
  return has(key) ? metadata.at(key).number : otherwise;
}

std::string Gguf::text(const std::string& key, const std::string& otherwise) const {
  return has(key) ? metadata.at(key).text : otherwise;
}

std::vector<double> Gguf::required(const std::string& name) const {
  if (tensors.count(name) == 0) throw std::runtime_error("the file has no tensor " + name);
  const Tensor& tensor = tensors.at(name);
  uint64_t n_elements = 1;
  for (uint64_t length : tensor.shape) n_elements *= length;
  const uint64_t n_bytes = encoded_bytes(tensor.type, n_elements);
  if (tensor.offset > bytes.size() || n_bytes > bytes.size() - tensor.offset) {
    throw std::runtime_error("tensor " + name + " reaches beyond the end of the file");
  }
  return decode(tensor.type, bytes.data() + tensor.offset, n_elements);
}

std::vector<double> Gguf::optional(const std::string& name) const {
  return tensors.count(name) == 0 ? std::vector<double>() : required(name);
}

}  // namespace troika::reference
