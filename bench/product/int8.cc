// int8 panels with the kernels of one implementation: plain, AVX2, VNNI or AMX.
#include <memory>

#include "bench/product/contender.h"
#include "kernels/pack.h"

namespace troika::bench {
namespace {

struct State {
  std::vector<std::byte> bytes;  // levels, then tokens
  std::vector<float> scales;
  std::vector<int32_t> starts;
  kernels::Int8Panels panels;
  std::byte* tokens;
};

std::shared_ptr<State> pack(const ProductShape& shape, size_t n_tokens) {
  const size_t n_strips = kernels::n_strips(shape.n_rows);
  const size_t level_bytes = n_strips * kernels::int8_strip_bytes(shape.k);
  auto state = std::make_shared<State>();
  state->bytes.resize(level_bytes + n_tokens * kernels::int8_token_bytes(shape.k) + 64);
  state->scales.resize(n_strips * kernels::kPanelRows);
  state->starts.resize(n_strips * kernels::kPanelRows);
  const auto address = reinterpret_cast<uintptr_t>(state->bytes.data());
  std::byte* begin = state->bytes.data() + (64 - address % 64) % 64;
  auto* levels = reinterpret_cast<int8_t*>(begin);
  state->tokens = begin + level_bytes;
  std::vector<float> row(shape.k);
  std::vector<float> buffer(kernels::int8_token_bytes(shape.k) / sizeof(float));
  const kernels::PackBuffers buffers = {row.data(), reinterpret_cast<std::byte*>(buffer.data())};
  for (size_t strip = 0; strip < n_strips; ++strip) {
    kernels::MatmulWeight part = weights_of(shape);
    part.first_row = strip * kernels::kPanelRows;
    part.last_row = std::min(part.first_row + kernels::kPanelRows, shape.n_rows);
    kernels::pack_int8(kernels_of("reference"), tensor::Type::kQ8_0, part, buffers,
                       levels + strip * kernels::int8_strip_bytes(shape.k),
                       state->scales.data() + part.first_row,
                       state->starts.data() + part.first_row);
  }
  state->panels = {levels, state->scales.data(), state->starts.data(), shape.n_rows, shape.k};
  return state;
}

}  // namespace

Contender int8_contender(const char* implementation) {
  return {std::string("int8 ") + implementation, Peak::kInt8,
          can_run(implementation) ? nullptr : "this processor cannot run it",
          [=](const ProductShape& shape, size_t n_tokens, const float* x, float* y) -> Product {
            const kernels::Table& table = kernels_of(implementation);
            const std::shared_ptr<State> state = pack(shape, n_tokens);
            const size_t stride = kernels::int8_token_bytes(shape.k);
            return [=, &table] {
              for (size_t t = 0; t < n_tokens; ++t) {
                table.quantize_int8(x + t * shape.k, state->tokens + t * stride, shape.k);
              }
              // As a lane does: a few strips meet all tokens, then the next.
              for (size_t strip = 0; strip < kernels::n_strips(shape.n_rows); strip += 4) {
                table.matmul_int8(state->panels,
                                  {strip, std::min(strip + 4, kernels::n_strips(shape.n_rows)),
                                   n_tokens, state->tokens, stride, nullptr, y, shape.n_rows});
              }
            };
          }};
}

}  // namespace troika::bench
