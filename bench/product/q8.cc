// Multiplies blocks as they stand in the file with activations in blocks of 32, as decoding does.
#include <memory>

#include "bench/product/contender.h"

namespace troika::bench {

Contender q8_contender() {
  return {"q8 blocks", Peak::kInt8, nullptr,
          [](const ProductShape& shape, size_t n_tokens, const float* x, float* y) -> Product {
            const kernels::Table& table = kernels_of("");
            const kernels::MatmulWeight weight = weights_of(shape);
            const size_t stride = kernels::q8_row_bytes(shape.k);
            const auto tokens = std::make_shared<std::vector<std::byte>>(n_tokens * stride);
            return [=, &table] {
              for (size_t t = 0; t < n_tokens; ++t) {
                table.quantize_activations(x + t * shape.k, tokens->data() + t * stride, shape.k);
              }
              find(table.matmul_q8, tensor::Type::kQ8_0)(weight, n_tokens, tokens->data(), stride,
                                                         y, shape.n_rows);
            };
          }};
}

}  // namespace troika::bench
