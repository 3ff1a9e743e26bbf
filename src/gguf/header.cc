#include "gguf/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "base/os_error.h"
#include "gguf/cursor.h"

namespace troika::gguf {
namespace {

constexpr uint32_t kMaxDimensions = 4;
constexpr size_t kMaxNameBytes = 65535;

[[noreturn]] void fail(std::string_view file, std::string_view problem) {
  throw Error(
      fmt::format("{}: {}. The file is damaged; download or convert it again.", file, problem));
}

// Files that people mistake for GGUF files, by their first bytes.
struct OtherFormat {
  std::string_view start;
  const char* advice;
};
constexpr OtherFormat kOtherFormats[] = {
    {"tjgg", "it is a GGJT file, a predecessor of GGUF; convert the original model again"},
    {"lmgg", "it is a GGML file, a predecessor of GGUF; convert the original model again"},
    {"fmgg", "it is a GGMF file, a predecessor of GGUF; convert the original model again"},
    {"PK\x03\x04", "it is a zip archive or a PyTorch checkpoint; convert the model to GGUF first"},
    {"version https://git-lfs",
     "it is a Git LFS pointer and not the model itself; run `git lfs pull`"},
    {"<", "it is a web page, not a model; check the address it was downloaded from"},
};

uint32_t read_version(Cursor& cursor, std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.empty()) {
    throw Error(fmt::format("{}: the file is empty; download or convert it again.", cursor.name()));
  }
  if (!std::string_view("GGUF").starts_with(text.substr(0, 4))) {
    for (const OtherFormat& other : kOtherFormats) {
      if (text.starts_with(other.start)) {
        throw Error(fmt::format("{}: {}.", cursor.name(), other.advice));
      }
    }
    throw Error(fmt::format("{}: it is not a GGUF file (it starts with {}); give a GGUF model.",
                            cursor.name(), quoted(text.substr(0, 4))));
  }
  cursor.take(4, "the magic number");
  const auto version = cursor.read<uint32_t>("the version");
  if ((version & 0xffff) == 0 && version != 0) {
    throw Error(fmt::format(
        "{}: it is a big-endian GGUF file; convert the original model again, for little-endian.",
        cursor.name()));
  }
  if (version < 2) {
    throw Error(fmt::format(
        "{}: it is a GGUF file of version {}, which is no longer read; convert the model again.",
        cursor.name(), version));
  }
  if (version > 3) {
    throw Error(
        fmt::format("{}: it is a GGUF file of version {}; this program reads versions 2 and 3.",
                    cursor.name(), version));
  }
  return version;
}

std::string_view read_name(Cursor& cursor, std::string_view what) {
  const std::string_view name = cursor.read_string(what);
  if (name.empty() || name.size() > kMaxNameBytes) {
    fail(cursor.name(),
         fmt::format("{} before byte {} has {} bytes", what, cursor.position(), name.size()));
  }
  return name;
}

void read_metadata(Cursor& cursor, uint64_t count, Header& header) {
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view key = read_name(cursor, "a metadata key");
    const auto type = static_cast<ValueType>(cursor.read<uint32_t>(key));
    if (!header.entry_by_key.emplace(key, header.metadata.size()).second) {
      fail(cursor.name(), fmt::format("the metadata key {} stands there twice", quoted(key)));
    }
    header.metadata.push_back({key, read_value(cursor, type, key)});
  }
}

uint64_t alignment_of(const Header& header, std::string_view file) {
  const auto found = header.entry_by_key.find("general.alignment");
  if (found == header.entry_by_key.end()) return 32;
  const Value& value = header.metadata[found->second].value;
  const uint64_t* alignment = std::get_if<uint64_t>(&value.data);
  constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;
  if (alignment == nullptr || !std::has_single_bit(*alignment) || *alignment > kMaxAlignment) {
    fail(file, "general.alignment is no power of two up to 2^30");
  }
  return *alignment;
}

// Sets `bytes` from type and shape. Throws where the product overflows, or a row has half a block.
void measure(TensorInfo& tensor, std::string_view file) {
  uint64_t n_elements = 1;
  for (const uint64_t length : tensor.shape) {
    if (length == 0) {
      fail(file, fmt::format("tensor {} has a dimension of length 0", quoted(tensor.name)));
    }
    if (__builtin_mul_overflow(n_elements, length, &n_elements) ||
        n_elements > static_cast<uint64_t>(INT64_MAX)) {
      fail(file,
           fmt::format("tensor {} claims to have more than 2^63 elements", quoted(tensor.name)));
    }
  }
  const tensor::TypeInfo* info = tensor::find_type(tensor.type);
  if (info == nullptr) return;
  if (tensor.row_length() % info->block_length != 0) {
    fail(file,
         fmt::format("tensor {} has rows of {} elements, which is no multiple of the {} of a "
                     "{} block",
                     quoted(tensor.name), tensor.row_length(), info->block_length, info->name));
  }
  if (__builtin_mul_overflow(n_elements / info->block_length, uint64_t{info->block_bytes},
                             &tensor.bytes)) {
    fail(file, fmt::format("tensor {} claims to have more than 2^63 bytes", quoted(tensor.name)));
  }
}

void read_tensors(Cursor& cursor, uint64_t count, Header& header) {
  for (uint64_t i = 0; i < count; ++i) {
    TensorInfo tensor{};
    tensor.name = read_name(cursor, "a tensor name");
    const auto n_dimensions = cursor.read<uint32_t>(tensor.name);
    if (n_dimensions > kMaxDimensions) {
      fail(cursor.name(), fmt::format("tensor {} claims to have {} dimensions; at most {} are "
                                      "possible",
                                      quoted(tensor.name), n_dimensions, kMaxDimensions));
    }
    for (uint32_t d = 0; d < n_dimensions; ++d) {
      tensor.shape.push_back(cursor.read<uint64_t>(tensor.name));
    }
    tensor.type = static_cast<tensor::Type>(cursor.read<uint32_t>(tensor.name));
    tensor.offset = cursor.read<uint64_t>(tensor.name);
    if (tensor.offset % header.alignment != 0) {
      fail(cursor.name(), fmt::format("the data of tensor {} starts at {}, which is no multiple of "
                                      "the alignment {}",
                                      quoted(tensor.name), tensor.offset, header.alignment));
    }
    measure(tensor, cursor.name());
    if (!header.tensor_by_name.emplace(tensor.name, header.tensors.size()).second) {
      fail(cursor.name(), fmt::format("tensor {} stands there twice", quoted(tensor.name)));
    }
    header.tensors.push_back(std::move(tensor));
  }
}

void check_places(const Header& header, uint64_t file_bytes, std::string_view file) {
  const uint64_t data_bytes = file_bytes > header.data_offset ? file_bytes - header.data_offset : 0;
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
      throw Error(fmt::format(
          "{}: the data of tensor {} lies beyond the end of the file (it needs bytes {} to {} of "
          "{} bytes of data): the file was cut short. Download or convert it again.",
          file, quoted(tensor.name), tensor.offset,
          static_cast<double>(tensor.offset) + static_cast<double>(tensor.bytes), data_bytes));
    }
  }
  std::vector<size_t> order(header.tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return header.tensors[a].offset < header.tensors[b].offset;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& left = header.tensors[order[i - 1]];
    const TensorInfo& right = header.tensors[order[i]];
    // The size of a tensor of unknown type is unknown, but it is not empty.
    if (left.offset + std::max<uint64_t>(left.bytes, 1) > right.offset) {
      fail(file, fmt::format("the data of tensors {} and {} overlap", quoted(left.name),
                             quoted(right.name)));
    }
  }
}

}  // namespace

Header read_header(std::span<const std::byte> bytes, std::string_view name) {
  Cursor cursor(bytes, name);
  Header header;
  header.version = read_version(cursor, bytes);
  const auto n_tensors = cursor.read<uint64_t>("the number of tensors");
  const auto n_entries = cursor.read<uint64_t>("the number of metadata entries");
  read_metadata(cursor, n_entries, header);
  header.alignment = alignment_of(header, name);
  read_tensors(cursor, n_tensors, header);
  header.data_offset =
      (cursor.position() + header.alignment - 1) / header.alignment * header.alignment;
  check_places(header, bytes.size(), name);
  return header;
}

}  // namespace troika::gguf
