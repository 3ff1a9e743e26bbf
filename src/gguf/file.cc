#include "gguf/file.h"

#include <fmt/format.h>

#include <deque>
#include <filesystem>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/os_error.h"
#include "gguf/cursor.h"
#include "gguf/header.h"
#include "gguf/split.h"

namespace troika::gguf {

namespace {
// No tokenizer has as many tokens or merges. Readers of strings have closer limits of their own.
constexpr uint64_t kMostElements = uint64_t{1} << 26;
}  // namespace

struct File::State {
  std::string name;
  std::deque<MappedFile> maps;  // one for each shard; none where the bytes were given
  std::vector<Shard> shards;
  // Has the metadata of the first shard and the tensors of all shards.
  Header header;

  // Adds the shard with this number (from 1).
  void add_mapped(const std::string& path, uint32_t number);

  [[noreturn]] void fail_type(std::string_view key, ValueType found, const char* wanted) const {
    throw Error(fmt::format(
        "{}: the metadata {} has type {} where {} is expected; convert the model again.", name,
        quoted(key), value_type_name(found), wanted));
  }
  [[noreturn]] void fail_range(std::string_view key) const {
    throw Error(fmt::format("{}: the metadata {} is out of range; convert the model again.", name,
                            quoted(key)));
  }

  // Returns nothing where the value is no integer.
  template <typename T>
  std::optional<T> as_integer(std::string_view key, const Value& value) const {
    if (value.type == ValueType::kBool) return std::nullopt;
    if (const auto* u = std::get_if<uint64_t>(&value.data)) {
      if (!std::in_range<T>(*u)) fail_range(key);
      return static_cast<T>(*u);
    }
    if (const auto* i = std::get_if<int64_t>(&value.data)) {
      if (!std::in_range<T>(*i)) fail_range(key);
      return static_cast<T>(*i);
    }
    return std::nullopt;
  }
  static std::optional<double> as_float(const Value& value) {
    if (value.type == ValueType::kBool) return std::nullopt;
    if (const auto* d = std::get_if<double>(&value.data)) return *d;
    if (const auto* u = std::get_if<uint64_t>(&value.data)) return static_cast<double>(*u);
    if (const auto* i = std::get_if<int64_t>(&value.data)) return static_cast<double>(*i);
    return std::nullopt;
  }

  const Value* find(std::string_view key) const {
    const auto found = header.entry_by_key.find(key);
    return found == header.entry_by_key.end() ? nullptr : &header.metadata[found->second].value;
  }
  // Calls visit(element) for each element of the array of this name, if there is one.
  template <typename Visit>
  void for_each(std::string_view key, const char* wanted, Visit visit) const {
    const Value* value = find(key);
    if (value == nullptr) return;
    const Array* array = std::get_if<Array>(&value->data);
    if (array == nullptr) fail_type(key, value->type, wanted);
    if (array->count > kMostElements) {
      throw Error(
          fmt::format("{}: the metadata {} has {} elements, where at most {} are read; convert the "
                      "model again.",
                      name, quoted(key), array->count, kMostElements));
    }
    // One element is held at a time: a value takes up to 48 times the bytes that it has in the
    // file.
    Cursor cursor(array->bytes, name);
    for (uint64_t i = 0; i < array->count; ++i) {
      if (!visit(read_value(cursor, array->element_type, key))) {
        fail_type(key, array->element_type, wanted);
      }
    }
  }
};

namespace {

// Throws Error for a file whose header says that it is one of several shards, but whose name does
// not.
void check_name(const std::string& path, const std::optional<ShardName>& name,
                const SplitFacts& facts) {
  const uint32_t count_by_name = name ? name->count : 1;
  if (facts.count == count_by_name && facts.number == 1) return;
  if (facts.count == 1) {
    throw Error(fmt::format(
        "{}: by its name it is one of {} parts, but it holds a whole model. Rename it so that it "
        "does not end in -00001-of-{:05}.gguf.",
        path, count_by_name, count_by_name));
  }
  throw Error(fmt::format(
      "{}: it is part {} of a model that is split over {} files. Put all of them into one folder "
      "under names that end in -{:05}-of-{:05}.gguf and so on, and give one of these names.",
      path, facts.number, facts.count, facts.number, facts.count));
}

// Throws an Error that names the missing shards, before any shard is read. A missing path itself
// gets the error of any other file.
void require_shards(const std::string& path, const std::optional<ShardName>& name) {
  std::error_code ignored;
  if (!name || !std::filesystem::exists(path, ignored)) return;
  uint32_t n_missing = 0;
  std::string missing;
  for (uint32_t number = 1; number <= name->count; ++number) {
    if (std::filesystem::exists(name->path_of(number), ignored)) continue;
    if (n_missing++ < 3)
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name->path_of(number));
  }
  if (n_missing == 0) return;
  throw Error(
      fmt::format("{}: the model is split over {} files, and {} of them {} not there: {}{}. "
                  "Download the missing "
                  "ones into the same folder.",
                  path, name->count, n_missing, n_missing == 1 ? "is" : "are", missing,
                  n_missing > 3 ? ", ..." : ""));
}

}  // namespace

File::File(std::unique_ptr<State> state) : state_(std::move(state)) {}
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;
File::~File() = default;

void File::State::add_mapped(const std::string& path, uint32_t number) {
  maps.push_back(MappedFile::open(path));
  MappedFile& map = maps.back();
  Header read = read_header(map.bytes(), path);
  shards.push_back({path, map.bytes(), read.data_offset, &map});
  if (number == 1) {
    header = std::move(read);
    return;
  }
  check_shard(read, path, number, header, name);
  for (TensorInfo& tensor : read.tensors) {
    tensor.shard = number - 1;
    if (!header.tensor_by_name.emplace(tensor.name, header.tensors.size()).second) {
      throw Error(fmt::format(
          "{}: tensor {} stands in {} too: the two are no parts of one model. Put all parts of one "
          "model, as they were downloaded, into one folder.",
          path, quoted(tensor.name),
          shards[header.tensors[header.tensor_by_name[tensor.name]].shard].path));
    }
    header.tensors.push_back(std::move(tensor));
  }
}

File File::open(const std::string& path) {
  auto state = std::make_unique<State>();
  const auto name = parse_shard_name(path);
  state->name = name ? name->path_of(1) : path;
  require_shards(path, name);
  state->add_mapped(state->name, 1);
  const SplitFacts facts = split_facts(state->header, state->name);
  check_name(state->name, name, facts);
  for (uint32_t number = 2; number <= facts.count; ++number) {
    state->add_mapped(name->path_of(number), number);
  }
  if (facts.n_tensors && *facts.n_tensors != state->header.tensors.size()) {
    throw Error(fmt::format(
        "{}: its {} parts hold {} tensors, where the model has {}. A part is damaged or of another "
        "model; download or split it again.",
        state->name, facts.count, state->header.tensors.size(), *facts.n_tensors));
  }
  File file(std::move(state));
  file.check_intact();
  return file;
}

File File::parse(std::span<const std::byte> bytes, std::string name) {
  auto state = std::make_unique<State>();
  state->name = std::move(name);
  state->header = read_header(bytes, state->name);
  state->shards.push_back({state->name, bytes, state->header.data_offset, nullptr});
  check_name(state->name, {}, split_facts(state->header, state->name));
  return File(std::move(state));
}

const std::string& File::path() const { return state_->name; }
uint32_t File::version() const { return state_->header.version; }
uint64_t File::alignment() const { return state_->header.alignment; }
uint64_t File::file_bytes() const {
  uint64_t bytes = 0;
  for (const Shard& shard : state_->shards) bytes += shard.bytes.size();
  return bytes;
}
std::span<const File::Shard> File::shards() const { return state_->shards; }
std::span<const File::Entry> File::metadata() const { return state_->header.metadata; }
const Value* File::find(std::string_view key) const { return state_->find(key); }

std::optional<uint64_t> File::find_uint(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = state_->as_integer<uint64_t>(key, *value);
  if (!number) state_->fail_type(key, value->type, "a whole number");
  return number;
}

std::optional<int64_t> File::find_int(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = state_->as_integer<int64_t>(key, *value);
  if (!number) state_->fail_type(key, value->type, "a whole number");
  return number;
}

std::optional<double> File::find_float(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = State::as_float(*value);
  if (!number) state_->fail_type(key, value->type, "a number");
  return number;
}

std::optional<bool> File::find_bool(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != ValueType::kBool) state_->fail_type(key, value->type, "a bool");
  return std::get<uint64_t>(value->data) != 0;
}

std::optional<std::string_view> File::find_string(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string_view>(&value->data);
  if (text == nullptr) state_->fail_type(key, value->type, "a string");
  return *text;
}

std::string_view File::get_string(std::string_view key) const {
  if (const auto text = find_string(key)) return *text;
  throw Error(fmt::format("{}: the metadata {} is missing; convert the model again.", state_->name,
                          quoted(key)));
}

std::vector<std::string_view> File::strings(std::string_view key) const {
  std::vector<std::string_view> all;
  state_->for_each(key, "an array of strings", [&](const Value& value) {
    const auto* text = std::get_if<std::string_view>(&value.data);
    if (text != nullptr) all.push_back(*text);
    return text != nullptr;
  });
  return all;
}

std::vector<int64_t> File::ints(std::string_view key) const {
  std::vector<int64_t> all;
  state_->for_each(key, "an array of whole numbers", [&](const Value& value) {
    const auto number = state_->as_integer<int64_t>(key, value);
    if (number) all.push_back(*number);
    return number.has_value();
  });
  return all;
}

std::vector<float> File::floats(std::string_view key) const {
  std::vector<float> all;
  state_->for_each(key, "an array of numbers", [&](const Value& value) {
    const auto number = State::as_float(value);
    if (number) all.push_back(static_cast<float>(*number));
    return number.has_value();
  });
  return all;
}

std::span<const TensorInfo> File::tensors() const { return state_->header.tensors; }

const TensorInfo* File::find_tensor(std::string_view name) const {
  const auto found = state_->header.tensor_by_name.find(name);
  if (found == state_->header.tensor_by_name.end()) return nullptr;
  return &state_->header.tensors[found->second];
}

const TensorInfo& File::get_tensor(std::string_view name) const {
  if (const TensorInfo* tensor = find_tensor(name)) return *tensor;
  throw Error(
      fmt::format("{}: tensor {} is missing; convert the model again.", path(), quoted(name)));
}

std::span<const std::byte> File::data(const TensorInfo& tensor) const {
  if (tensor::find_type(tensor.type) == nullptr) {
    std::string supported;
    for (const tensor::TypeInfo& info : tensor::type_table()) {
      supported += fmt::format("{}{}", supported.empty() ? "" : ", ", info.name);
    }
    throw Error(fmt::format(
        "{}: tensor {} has the element type {} ({}), which this program cannot compute with. It "
        "knows {}. Take a file of the model in one of these, or convert its F16 or BF16 file with "
        "'troika quantize'.",
        state_->shards[tensor.shard].path, quoted(tensor.name), tensor::type_name(tensor.type),
        static_cast<uint32_t>(tensor.type), supported));
  }
  const Shard& shard = state_->shards[tensor.shard];
  return shard.bytes.subspan(shard.data_offset + tensor.offset, tensor.bytes);
}

void File::check_intact() const {
  for (const MappedFile& map : state_->maps) {
    if (!map.damaged()) continue;
    throw Error(fmt::format(
        "{}: the file became shorter or unreadable while it was in use. What was computed since "
        "then is not to be trusted; restore the file and start again.",
        map.path()));
  }
}

}  // namespace troika::gguf
