// Decodes weights to float and multiplies in float: the judge path of --prefill f32.
#include "bench/product/contender.h"

namespace troika::bench {

Contender float_contender() {
  return {"float", Peak::kF32, nullptr,
          [](const ProductShape& shape, size_t n_tokens, const float* x, float* y) -> Product {
            const kernels::Table& table = kernels_of("");
            const kernels::MatmulWeight weight = weights_of(shape);
            return [=, &table] {
              find(table.matmul_f32, tensor::Type::kQ8_0)(weight, n_tokens, x, shape.k, y,
                                                          shape.n_rows);
            };
          }};
}

}  // namespace troika::bench
