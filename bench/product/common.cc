#include <map>
#include <memory>

#include "base/cpu_features.h"
#include "bench/product/contender.h"
#include "bench/weights.h"
#include "kernels/choose.h"

namespace troika::bench {

bool can_run(const char* implementation) {
  for (const kernels::Implementation& i : kernels::implementations()) {
    if (i.name == std::string(implementation)) return detect_cpu_features().has_all(i.needs);
  }
  return false;
}

const kernels::Table& kernels_of(const char* implementation) {
  static std::map<std::string, kernels::Kernels> chosen;
  const auto found = chosen.find(implementation);
  if (found != chosen.end()) return found->second.table;
  return chosen.emplace(implementation, kernels::choose(detect_cpu_features(), implementation))
      .first->second.table;
}

kernels::MatmulWeight weights_of(const ProductShape& shape, tensor::Type type) {
  static std::vector<std::byte> rows;
  static size_t n_rows = 0, k = 0;
  static tensor::Type row_type = tensor::Type::kF32;
  const size_t row_bytes = tensor::row_bytes(type, shape.k);
  if (n_rows != shape.n_rows || k != shape.k || row_type != type) {
    n_rows = shape.n_rows;
    k = shape.k;
    row_type = type;
    rows.assign(n_rows * row_bytes, std::byte{});
    const std::vector<float> values = random_floats(16 * k, 0.05f);
    for (size_t r = 0; r < n_rows; ++r) {
      tensor::quantize_row(type, values.data() + r % 16 * k, rows.data() + r * row_bytes, k);
    }
  }
  return {rows.data(), row_bytes, k, 0, n_rows};
}

}  // namespace troika::bench
