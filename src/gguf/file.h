// A GGUF model file (versions 2 and 3), read through a memory map, or a model that is split over
// several such files. Untrusted bytes end here: when a File exists, every count, length, offset,
// product and type has been checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/value.h"
#include "tensor/type.h"

namespace troika {
class MappedFile;
}

namespace troika::gguf {

struct TensorInfo {
  std::string_view name;
  tensor::Type type;            // may be one that this program cannot compute with
  std::vector<uint64_t> shape;  // in the file's order: shape[0] is the length of a row
  uint64_t offset;              // from the start of the data section
  uint64_t bytes;               // 0 where the type is unknown
  uint32_t shard = 0;           // the model's file that holds it

  uint64_t row_length() const { return shape.empty() ? 1 : shape[0]; }
  uint64_t n_rows() const { return n_elements() / row_length(); }
  // The product cannot overflow: it was checked when the file was read.
  uint64_t n_elements() const {
    uint64_t n = 1;
    for (const uint64_t length : shape) n *= length;
    return n;
  }
};

class File {
 public:
  // Maps the file. If the model is split, it maps all of its files, whichever of them the path
  // names. Throws Error for whatever is wrong with them.
  static File open(const std::string& path);
  // Reads bytes in memory, which must outlive the File; `name` stands in messages. A shard of a
  // split model is refused.
  static File parse(std::span<const std::byte> bytes, std::string name);

  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  // Returns the path of the first file, whichever shard was named.
  const std::string& path() const;
  uint32_t version() const;
  uint64_t alignment() const;
  // Returns the bytes of all files together.
  uint64_t file_bytes() const;

  // One file of the model; a split model has several. A tensor begins at data_offset +
  // tensor.offset of its shard.
  struct Shard {
    std::string path;
    std::span<const std::byte> bytes;  // the whole file, for keys made of its content
    uint64_t data_offset;              // where the tensor data starts, from the start of the file
    MappedFile* map;                   // null where the bytes were given in memory
  };
  std::span<const Shard> shards() const;

  // The metadata, in the order of the file.
  struct Entry {
    std::string_view key;
    Value value;
  };
  std::span<const Entry> metadata() const;
  const Value* find(std::string_view key) const;

  // Give typed access. `find_*` is empty where the key is missing; `get_string` throws then. All
  // throw an Error that names the key where the value has another type or does not fit. Integers of
  // any width and sign are accepted where they fit; a float key accepts integers too.
  std::optional<uint64_t> find_uint(std::string_view key) const;
  std::optional<int64_t> find_int(std::string_view key) const;
  std::optional<double> find_float(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;
  std::string_view get_string(std::string_view key) const;
  // Read arrays; they return empty vectors where the key is missing.
  std::vector<std::string_view> strings(std::string_view key) const;
  std::vector<int64_t> ints(std::string_view key) const;
  std::vector<float> floats(std::string_view key) const;

  std::span<const TensorInfo> tensors() const;
  const TensorInfo* find_tensor(std::string_view name) const;
  // Returns a tensor by its name. Throws an Error that says so where it is missing.
  const TensorInfo& get_tensor(std::string_view name) const;
  // Returns the tensor's bytes in the map. Throws an Error where its type is not supported.
  std::span<const std::byte> data(const TensorInfo& tensor) const;

  // Throws an Error if the file was cut short while it was mapped: then what was read since is not
  // the model. It is cheap, so it is called after every pass.
  void check_intact() const;

 private:
  struct State;
  explicit File(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace troika::gguf
