// Checks that any bytes either are refused with an Error, or can be read to the end. Start with a
// corpus:
//   scripts/make_fuzz_corpus.py FOLDER && fuzz_gguf_file FOLDER/fuzz_gguf_file
#include <cstdint>
#include <numeric>

#include "base/error.h"
#include "gguf/file.h"

namespace {

using troika::Error;
using troika::gguf::Array;
using troika::gguf::File;

uint64_t sum_of_bytes = 0;  // keeps the compiler from dropping the reads

void touch(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) sum_of_bytes += std::to_integer<uint64_t>(byte);
}

void walk(const Array& array) {
  touch(array.bytes);
  for (const auto& value : elements(array, 1000)) {
    if (const auto* inner = std::get_if<Array>(&value.data)) walk(*inner);
  }
}

template <typename Action>
void allow_error(Action action) {
  try {
    action();
  } catch (const Error&) {
  }
}

void use(const File& file) {
  for (const File::Entry& entry : file.metadata()) {
    const std::string_view key = entry.key;
    const auto& value = entry.value;
    if (const auto* array = std::get_if<Array>(&value.data)) walk(*array);
    allow_error([&] { (void)file.find_uint(key); });
    allow_error([&] { (void)file.find_int(key); });
    allow_error([&] { (void)file.find_float(key); });
    allow_error([&] { (void)file.find_bool(key); });
    allow_error([&] { (void)file.find_string(key); });
    allow_error([&] { (void)file.strings(key); });
    allow_error([&] { (void)file.ints(key); });
    allow_error([&] { (void)file.floats(key); });
  }
  for (const auto& tensor : file.tensors()) {
    sum_of_bytes += tensor.n_elements() + tensor.n_rows();
    if (file.find_tensor(tensor.name) != &tensor) __builtin_trap();
    allow_error([&] { touch(file.data(tensor)); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  allow_error([&] { use(File::parse(std::as_bytes(std::span(data, size)), "fuzz")); });
  return 0;
}
