// Computes with the plain version that judges the others. Ratios are taken to it on a small part of
// the rows, because it is slow and its rate does not depend on their number.
#include <memory>

#include "bench/product/contender.h"

namespace troika::bench {

Contender reference_contender() {
  return {"reference", Peak::kF32, nullptr,
          [](const ProductShape& shape, size_t n_tokens, const float* x, float* y) -> Product {
            const kernels::Table& table = kernels_of("reference");
            const kernels::MatmulWeight weight = weights_of(shape);
            return [=, &table] {
              find(table.matmul_f32, tensor::Type::kQ8_0)(weight, n_tokens, x, shape.k, y,
                                                          shape.n_rows);
            };
          }};
}

}  // namespace troika::bench
