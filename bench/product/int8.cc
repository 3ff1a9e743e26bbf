// Computes with int8 panels and the kernels of one implementation: plain, AVX2, VNNI or AMX.
#include <memory>

#include "bench/product/contender.h"
#include "kernels/pack.h"

namespace troika::bench {
namespace {

struct State {
  std::vector<std::byte> bytes;  // holds levels, then tokens
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
  state->scales.resize(n_strips * kernels::kStripRows);
  state->starts.resize(n_strips * kernels::kStripRows);
  const auto address = reinterpret_cast<uintptr_t>(state->bytes.data());
  std::byte* begin = state->bytes.data() + (64 - address % 64) % 64;
  auto* levels = reinterpret_cast<int8_t*>(begin);
  state->tokens = begin + level_bytes;
  for (size_t strip = 0; strip < n_strips; ++strip) {
    kernels::MatmulWeight part = weights_of(shape);
    part.first_row = strip * kernels::kStripRows;
    part.last_row = std::min(part.first_row + kernels::kStripRows, shape.n_rows);
    kernels::pack_strip(
        kernels_of("reference"), tensor::Type::kQ8_0, part,
        {levels + strip * kernels::int8_strip_bytes(shape.k), state->scales.data() + part.first_row,
         state->starts.data() + part.first_row});
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
              // As in a lane, a few strips meet all tokens, then the next strips do.
              for (size_t strip = 0; strip < kernels::n_strips(shape.n_rows); strip += 4) {
                table.matmul_int8(state->panels,
                                  {strip, std::min(strip + 4, kernels::n_strips(shape.n_rows)),
                                   n_tokens, state->tokens, stride, nullptr, y, shape.n_rows});
              }
            };
          }};
}

namespace {

constexpr size_t kStrips = 4;

// What stands in memory besides the weights: magnitudes of rows, and buffers for some strips.
struct Unpacked {
  std::vector<std::byte> bytes;  // holds levels of kStrips strips, then tokens
  std::vector<float> largest;
  float scales[kStrips * kernels::kStripRows];
  int32_t starts[kStrips * kernels::kStripRows];
  int8_t* levels;
  std::byte* tokens;
};

std::shared_ptr<Unpacked> measure(const kernels::Table& table, tensor::Type type,
                                  const ProductShape& shape, size_t n_tokens) {
  auto state = std::make_shared<Unpacked>();
  const size_t level_bytes = kStrips * kernels::int8_strip_bytes(shape.k);
  state->bytes.resize(level_bytes + n_tokens * kernels::int8_token_bytes(shape.k) + 64);
  const auto address = reinterpret_cast<uintptr_t>(state->bytes.data());
  std::byte* begin = state->bytes.data() + (64 - address % 64) % 64;
  state->levels = reinterpret_cast<int8_t*>(begin);
  state->tokens = begin + level_bytes;
  const kernels::MatmulWeight weight = weights_of(shape, type);
  for (size_t r = 0; r < shape.n_rows; ++r) {
    state->largest.push_back(
        kernels::find(table.largest_of_row, type)(weight.data + r * weight.row_bytes, weight.k));
  }
  return state;
}

}  // namespace

Contender int8_unpacked_contender(const char* implementation, tensor::Type type) {
  return {std::string("int8 ") + implementation + " " + tensor::type_name(type), Peak::kInt8,
          can_run(implementation) ? nullptr : "this processor cannot run it",
          [=](const ProductShape& shape, size_t n_tokens, const float* x, float* y) -> Product {
            const kernels::Table& table = kernels_of(implementation);
            const std::shared_ptr<Unpacked> state = measure(table, type, shape, n_tokens);
            const kernels::MatmulWeight weight = weights_of(shape, type);
            const size_t stride = kernels::int8_token_bytes(shape.k);
            return [=, &table] {
              for (size_t t = 0; t < n_tokens; ++t) {
                table.quantize_int8(x + t * shape.k, state->tokens + t * stride, shape.k);
              }
              const size_t n_strips = kernels::n_strips(shape.n_rows);
              for (size_t first = 0; first < n_strips; first += kStrips) {
                const size_t last = std::min(first + kStrips, n_strips);
                for (size_t strip = first; strip < last; ++strip) {
                  const size_t i = strip - first, row = strip * kernels::kStripRows;
                  kernels::MatmulWeight part = weight;
                  part.first_row = row;
                  part.last_row = std::min(row + kernels::kStripRows, shape.n_rows);
                  kernels::find(table.unpack_int8, type)(
                      part, state->largest.data() + row,
                      {state->levels + i * kernels::int8_strip_bytes(shape.k),
                       state->scales + i * kernels::kStripRows,
                       state->starts + i * kernels::kStripRows});
                }
                table.matmul_int8(
                    {state->levels, state->scales, state->starts, shape.n_rows, shape.k, first},
                    {first, last, n_tokens, state->tokens, stride, nullptr, y, shape.n_rows});
              }
            };
          }};
}

}  // namespace troika::bench
