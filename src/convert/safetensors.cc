#include "convert/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/os_error.h"
#include "convert/safetensors_header.h"

namespace troika::convert {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the limit of the format's own library

struct Dtype {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<Dtype, 14> kDtypes = {{{"F64", 8},
                                            {"F32", 4},
                                            {"F16", 2},
                                            {"BF16", 2},
                                            {"I64", 8},
                                            {"I32", 4},
                                            {"I16", 2},
                                            {"I8", 1},
                                            {"U64", 8},
                                            {"U32", 4},
                                            {"U16", 2},
                                            {"U8", 1},
                                            {"BOOL", 1},
                                            {"F8_E4M3", 1}}};

[[noreturn]] void fail(std::string_view file, std::string_view problem) {
  throw Error(fmt::format("{}: {}. The file is damaged; download it again.", file, problem));
}

// Returns 0 where the type is not known: then only the offsets say how long the data is.
uint64_t bytes_of_element(std::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) return known.bytes;
  }
  return 0;
}

// Checks the size of a tensor. Empty tensors are allowed; products that overflow are not.
void check_size(const HeaderTensor& tensor, std::string_view file) {
  uint64_t n = 1;
  for (const uint64_t length : tensor.shape) {
    if (__builtin_mul_overflow(n, length, &n) || n > static_cast<uint64_t>(INT64_MAX)) {
      fail(file, fmt::format("tensor {} claims to have more than 2^63 elements",
                             troika::quoted(tensor.name)));
    }
  }
  const uint64_t element = bytes_of_element(tensor.dtype);
  if (element == 0) return;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(n, element, &bytes) || bytes != tensor.end - tensor.begin) {
    fail(file,
         fmt::format("tensor {} has {} bytes of data, which is not what {} elements of {} take",
                     troika::quoted(tensor.name), tensor.end - tensor.begin, n, tensor.dtype));
  }
}

void check_places(const std::vector<HeaderTensor>& tensors, uint64_t data_bytes,
                  std::string_view file) {
  std::vector<const HeaderTensor*> order;
  for (const HeaderTensor& tensor : tensors) {
    if (tensor.begin > tensor.end) {
      fail(file,
           fmt::format("the data of tensor {} ends before it begins", troika::quoted(tensor.name)));
    }
    if (tensor.end > data_bytes) {
      fail(file, fmt::format("the data of tensor {} ends at {} of {} bytes: the file was cut short",
                             troika::quoted(tensor.name), tensor.end, data_bytes));
    }
    check_size(tensor, file);
    if (tensor.begin < tensor.end) order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const HeaderTensor* a, const HeaderTensor* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->end > order[i]->begin) {
      fail(file, fmt::format("the data of tensors {} and {} overlap",
                             troika::quoted(order[i - 1]->name), troika::quoted(order[i]->name)));
    }
  }
}

}  // namespace

tensor::Type source_type(const SourceTensor& tensor, std::string_view file) {
  if (tensor.dtype == "F32") return tensor::Type::kF32;
  if (tensor.dtype == "F16") return tensor::Type::kF16;
  if (tensor.dtype == "BF16") return tensor::Type::kBF16;
  throw Error(
      fmt::format("{}: tensor {} has the element type {}; F32, F16 and BF16 can be converted. Take "
                  "the model as "
                  "it was before it was quantised.",
                  file, troika::quoted(tensor.name), troika::quoted(tensor.dtype)));
}

SafetensorsFile::SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  file.map_ = std::make_unique<MappedFile>(MappedFile::open(path));
  file.read(file.map_->bytes());
  file.check_intact();
  return file;
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, std::string name) {
  SafetensorsFile file;
  file.path_ = std::move(name);
  file.read(bytes);
  return file;
}

void SafetensorsFile::read(std::span<const std::byte> bytes) {
  file_bytes_ = bytes.size();
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes) {
    throw Error(
        fmt::format("{}: it has {} bytes, too few for a safetensors file; download it again.",
                    path_, bytes.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("version https://git-lfs")) {
    throw Error(fmt::format(
        "{}: it is a Git LFS pointer and not the weights themselves; run `git lfs pull`.", path_));
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  if (header_bytes > kMostHeaderBytes || header_bytes > bytes.size() - sizeof header_bytes) {
    throw Error(fmt::format(
        "{}: it claims a header of {} bytes, but has {} bytes in all: it was cut short or is no "
        "safetensors file. Download it again.",
        path_, header_bytes, bytes.size()));
  }
  const auto headers =
      read_safetensors_header(text.substr(sizeof header_bytes, header_bytes), path_);
  const auto data = bytes.subspan(sizeof header_bytes + header_bytes);
  check_places(headers, data.size(), path_);
  for (const HeaderTensor& tensor : headers) {
    tensors_.push_back({tensor.name, tensor.dtype, tensor.shape,
                        data.subspan(tensor.begin, tensor.end - tensor.begin)});
  }
}

void SafetensorsFile::check_intact() const {
  if (map_ == nullptr || !map_->damaged()) return;
  throw Error(fmt::format(
      "{}: the file became shorter or unreadable while it was read; restore it and start again.",
      path_));
}

}  // namespace troika::convert
