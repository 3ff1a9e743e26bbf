// Checks that any bytes are either refused with an Error, or are a safetensors file whose tensors
// lie inside of it.
#include <cstdint>
#include <span>

#include "base/error.h"
#include "convert/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using troika::convert::SafetensorsFile;
  static uint64_t sum = 0;  // keeps the compiler from dropping the reads
  try {
    const auto bytes = std::as_bytes(std::span(data, size));
    const SafetensorsFile file = SafetensorsFile::parse(bytes, "fuzz");
    for (const auto& tensor : file.tensors()) {
      sum += tensor.n_elements() + tensor.row_length();
      for (const std::byte byte : tensor.data) sum += std::to_integer<uint64_t>(byte);
      try {
        sum += static_cast<uint64_t>(source_type(tensor, file.path()));
      } catch (const troika::Error&) {
      }
    }
  } catch (const troika::Error&) {
  }
  return 0;
}
