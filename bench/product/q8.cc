// Multiplies blocks with activations in blocks of 32, as decoding does: rows as they stand in the
// file, and rows in strips with tokens that are prepared for them.
#include <algorithm>
#include <memory>

#include "bench/product/contender.h"
#include "tensor/strips.h"

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

namespace {

// Counts the rows that meet all tokens before the next rows do, as in a lane.
constexpr size_t kRowsAtOnce = 64;

std::shared_ptr<std::vector<std::byte>> strips_of(const kernels::MatmulWeight& weight,
                                                  tensor::Type type) {
  auto strips = std::make_shared<std::vector<std::byte>>(weight.last_row * weight.row_bytes);
  for (size_t r = 0; r < weight.last_row; r += tensor::kStripRows) {
    tensor::pack_strip(type, weight.data + r * weight.row_bytes, weight.k,
                       strips->data() + r * weight.row_bytes);
  }
  return strips;
}

}  // namespace

Contender q8_strips_contender(const char* implementation, tensor::Type type) {
  return {
      std::string("q8 ") + implementation + " " + tensor::type_name(type), Peak::kInt8,
      can_run(implementation) ? nullptr : "this processor cannot run it",
      [=](const ProductShape& shape, size_t n_tokens, const float* x, float* y) -> Product {
        const kernels::Table& table = kernels_of(implementation);
        const kernels::MatmulWeight file = weights_of(shape, type);
        const auto strips = strips_of(file, type);
        const size_t n_blocks = kernels::n_token_blocks(shape.k);
        const auto row = std::make_shared<std::vector<std::byte>>(kernels::q8_row_bytes(shape.k));
        const auto blocks = std::make_shared<std::vector<kernels::TokenBlock>>(n_tokens * n_blocks);
        return [=, &table] {
          const kernels::TokenGroups groups = {n_tokens};
          for (size_t t = 0; t < n_tokens; ++t) {
            const size_t group = groups.of_token(t), first = groups.first(group);
            table.quantize_activations(x + t * shape.k, row->data(), shape.k);
            find(table.spread_token, type)(row->data(), shape.k,
                                           blocks->data() + first * n_blocks + t - first,
                                           groups.size(group));
          }
          for (size_t r = 0; r < shape.n_rows; r += kRowsAtOnce) {
            const kernels::MatmulWeight part = {
                strips->data(), file.row_bytes, shape.k, r, std::min(r + kRowsAtOnce, shape.n_rows),
                shape.n_rows};
            find(table.matmul_spread, type)(part, n_tokens, blocks->data(), y, shape.n_rows);
          }
        };
      }};
}

}  // namespace troika::bench
