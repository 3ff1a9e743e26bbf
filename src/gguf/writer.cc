#include "gguf/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <set>
#include <type_traits>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/os_error.h"

namespace troika::gguf {
namespace {

struct PlacedTensor {
  std::string name;
  tensor::Type type;
  std::vector<uint64_t> shape;
  uint64_t offset;
  uint64_t bytes;
};

template <typename T>
void append(std::string& out, T value) {
  static_assert(std::is_arithmetic_v<T> && std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string& out, std::string_view text) {
  append(out, uint64_t{text.size()});
  out.append(text);
}

template <typename T>
void append_array(std::string& out, ValueType type, std::span<const T> values) {
  append(out, static_cast<uint32_t>(type));
  append(out, uint64_t{values.size()});
  out.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

uint64_t round_up(uint64_t n, uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

}  // namespace

struct Writer::State {
  State(std::string path, uint64_t alignment) : alignment(alignment) {
    file.emplace(std::move(path));
  }
  State() : alignment(32) {}

  std::optional<AtomicFile> file;  // none where nothing is written
  uint64_t alignment;
  std::string metadata;  // all entries, encoded
  std::set<std::string, std::less<>> keys;
  std::set<std::string, std::less<>> names;
  std::vector<PlacedTensor> tensors;
  uint64_t data_bytes = 0;  // counts the padded bytes of all tensors added so far
  bool in_data = false;
  size_t current = 0;             // the tensor that `write` fills
  uint64_t bytes_of_current = 0;  // counts bytes that were already written

  // Returns the string to which the value's bytes are appended.
  std::string& begin_entry(std::string_view key, ValueType type) {
    TROIKA_ASSERT(!in_data);
    TROIKA_ASSERT(!key.empty() && keys.emplace(key).second);
    append_string(metadata, key);
    append(metadata, static_cast<uint32_t>(type));
    return metadata;
  }
  void pad(uint64_t from) {
    static constexpr std::array<std::byte, 4096> kZeros = {};
    for (uint64_t n = round_up(from, alignment) - from; n > 0;) {
      const uint64_t piece = std::min<uint64_t>(n, kZeros.size());
      file->write(std::span(kZeros).first(piece));
      n -= piece;
    }
  }
};

Writer::Writer(std::string path, uint64_t alignment)
    : state_(std::make_unique<State>(std::move(path), alignment)) {
  TROIKA_ASSERT(std::has_single_bit(alignment) && alignment <= kMostWrittenAlignment);
  if (alignment != 32) add_uint32("general.alignment", static_cast<uint32_t>(alignment));
}

Writer::Writer() : state_(std::make_unique<State>()) {}

Writer::~Writer() = default;

void Writer::add_uint32(std::string_view key, uint32_t value) {
  append(state_->begin_entry(key, ValueType::kUint32), value);
}
void Writer::add_uint64(std::string_view key, uint64_t value) {
  append(state_->begin_entry(key, ValueType::kUint64), value);
}
void Writer::add_float32(std::string_view key, float value) {
  append(state_->begin_entry(key, ValueType::kFloat32), value);
}
void Writer::add_bool(std::string_view key, bool value) {
  append(state_->begin_entry(key, ValueType::kBool), static_cast<uint8_t>(value ? 1 : 0));
}
void Writer::add_string(std::string_view key, std::string_view value) {
  append_string(state_->begin_entry(key, ValueType::kString), value);
}

void Writer::add_strings(std::string_view key, std::span<const std::string> values) {
  std::string& out = state_->begin_entry(key, ValueType::kArray);
  append(out, static_cast<uint32_t>(ValueType::kString));
  append(out, uint64_t{values.size()});
  for (const std::string& value : values) append_string(out, value);
}
void Writer::add_floats(std::string_view key, std::span<const float> values) {
  append_array(state_->begin_entry(key, ValueType::kArray), ValueType::kFloat32, values);
}
void Writer::add_int32s(std::string_view key, std::span<const int32_t> values) {
  append_array(state_->begin_entry(key, ValueType::kArray), ValueType::kInt32, values);
}

void Writer::add_value(std::string_view key, const Value& value) {
  std::string& out = state_->begin_entry(key, value.type);
  if (const auto* text = std::get_if<std::string_view>(&value.data)) {
    append_string(out, *text);
  } else if (const auto* array = std::get_if<Array>(&value.data)) {
    append(out, static_cast<uint32_t>(array->element_type));
    append(out, array->count);
    out.append(reinterpret_cast<const char*>(array->bytes.data()), array->bytes.size());
  } else if (const auto* number = std::get_if<double>(&value.data)) {
    if (value.type == ValueType::kFloat32) {
      append(out, static_cast<float>(*number));
    } else {
      append(out, *number);
    }
  } else {
    // The low bytes of an integer are the integer of the narrower type.
    const uint64_t bits = std::holds_alternative<uint64_t>(value.data)
                              ? std::get<uint64_t>(value.data)
                              : static_cast<uint64_t>(std::get<int64_t>(value.data));
    out.append(reinterpret_cast<const char*>(&bits), value_type_bytes(value.type));
  }
}

void Writer::add_tensor(std::string_view name, tensor::Type type, std::span<const uint64_t> shape) {
  TROIKA_ASSERT(!state_->in_data);
  TROIKA_ASSERT(shape.size() <= 4);
  TROIKA_ASSERT(state_->names.emplace(name).second);
  uint64_t n_rows = 1;
  for (size_t d = 1; d < shape.size(); ++d) n_rows *= shape[d];
  PlacedTensor tensor;
  tensor.name = name;
  tensor.type = type;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.offset = state_->data_bytes;
  tensor.bytes = n_rows * tensor::row_bytes(type, shape.empty() ? 1 : shape[0]);
  state_->data_bytes += round_up(tensor.bytes, state_->alignment);
  state_->tensors.push_back(std::move(tensor));
}

std::string Writer::header(uint64_t* data_bytes) {
  State& state = *state_;
  TROIKA_ASSERT(!state.in_data);
  state.in_data = true;
  std::string header = "GGUF";
  append(header, uint32_t{3});
  append(header, uint64_t{state.tensors.size()});
  append(header, uint64_t{state.keys.size()});
  header += state.metadata;
  for (const PlacedTensor& tensor : state.tensors) {
    append_string(header, tensor.name);
    append(header, static_cast<uint32_t>(tensor.shape.size()));
    for (const uint64_t length : tensor.shape) append(header, length);
    append(header, static_cast<uint32_t>(tensor.type));
    append(header, tensor.offset);
  }
  header.resize(round_up(header.size(), state.alignment), '\0');
  state.metadata.clear();
  state.metadata.shrink_to_fit();
  *data_bytes = state.data_bytes;
  return header;
}

void Writer::begin_data() {
  TROIKA_ASSERT(state_->file.has_value());
  uint64_t data_bytes = 0;
  state_->file->write(header(&data_bytes));
}

void Writer::write(std::span<const std::byte> bytes) {
  State& state = *state_;
  TROIKA_ASSERT(state.in_data);
  while (!bytes.empty()) {
    TROIKA_ASSERT(state.current < state.tensors.size());
    const uint64_t whole = state.tensors[state.current].bytes;
    const auto n = std::min<uint64_t>(bytes.size(), whole - state.bytes_of_current);
    state.file->write(bytes.first(n));
    bytes = bytes.subspan(n);
    state.bytes_of_current += n;
    if (state.bytes_of_current < whole) continue;
    state.pad(whole);
    ++state.current;
    state.bytes_of_current = 0;
  }
}

void Writer::finish() {
  TROIKA_ASSERT(state_->in_data);
  TROIKA_ASSERT(state_->current == state_->tensors.size());
  state_->file->commit();
}

uint64_t Writer::bytes_written() const { return state_->file->bytes_written(); }

}  // namespace troika::gguf
