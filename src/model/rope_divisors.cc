#include "model/rope_divisors.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/error.h"

namespace troika::model {
namespace {

std::vector<float> read_divisors(const Metadata& metadata, const char* name, int n_dims) {
  const gguf::TensorInfo* tensor = metadata.file().find_tensor(name);
  if (tensor == nullptr) return {};
  const auto n_pairs = static_cast<uint64_t>(n_dims / 2);
  if (tensor->type != tensor::Type::kF32 || tensor->n_elements() != n_pairs) {
    throw Error(
        fmt::format("{}: the tensor '{}' should hold {} F32 values. The file is damaged; convert "
                    "or download it again.",
                    metadata.file().path(), name, n_pairs));
  }
  std::vector<float> divisors(n_pairs);
  // Bytes are copied because a file may place its tensors at any address.
  const std::span<const std::byte> bytes = metadata.file().data(*tensor);
  std::memcpy(divisors.data(), bytes.data(), n_pairs * sizeof(float));
  for (const float divisor : divisors) {
    if (divisor > 0.0f && std::isfinite(divisor)) continue;
    throw Error(
        fmt::format("{}: the tensor '{}' holds {}, but its values must be above 0. The file is "
                    "damaged; convert or download it again.",
                    metadata.file().path(), name, divisor));
  }
  return divisors;
}

}  // namespace

void read_frequency_divisors(const Metadata& metadata, Rope* rope) {
  rope->frequency_divisors = read_divisors(metadata, "rope_freqs.weight", rope->n_dims);
  if (!rope->frequency_divisors.empty()) return;
  rope->frequency_divisors = read_divisors(metadata, "rope_factors_short.weight", rope->n_dims);
  rope->long_divisors = read_divisors(metadata, "rope_factors_long.weight", rope->n_dims);
}

}  // namespace troika::model
