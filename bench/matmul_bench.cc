// Measures products of the shapes of Qwen2.5-1.5B, for each implementation, type and number of
// tokens. bytes_per_second counts the weights read, ops/s two operations for each weight and token.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "bench/weights.h"
#include "kernels/choose.h"

namespace troika::bench {
namespace {

using kernels::MatmulWeight;
using tensor::Type;

struct Shape {
  const char* name;
  size_t n_rows, k;
};

constexpr Shape kShapes[] = {
    {"attention", 1536, 1536},
    {"ffn_up", 8960, 1536},
    {"ffn_down", 1536, 8960},
};

// Returns a pool. Pools are large, so there is one at a time, kept while consecutive benchmarks use
// it.
const WeightPool& pool(Type type, size_t k) {
  static std::unique_ptr<WeightPool> current;
  static Type current_type;
  static size_t current_k = 0;
  if (current == nullptr || current_type != type || current_k != k) {
    current = nullptr;
    current = std::make_unique<WeightPool>(type, k);
    current_type = type;
    current_k = k;
  }
  return *current;
}

void count(benchmark::State& state, const WeightPool& weights, const Shape& shape,
           size_t n_tokens) {
  const auto turns = static_cast<double>(state.iterations());
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(shape.n_rows * weights.row_bytes()));
  state.counters["ops/s"] =
      benchmark::Counter(2.0 * turns * static_cast<double>(shape.n_rows * shape.k * n_tokens),
                         benchmark::Counter::kIsRate);
}

// Measures products with blocks. With `in_strips` the rows are taken to stand side by side; the
// time does not depend on the content of the blocks.
void matmul_q8(benchmark::State& state, const kernels::Table& table, Type type, Shape shape,
               size_t n_tokens, bool in_strips) {
  const WeightPool& weights = pool(type, shape.k);
  const size_t stride = kernels::q8_row_bytes(shape.k);
  const std::vector<float> x = random_floats(shape.k, 1.0f);
  std::vector<std::byte> q(n_tokens * stride);
  for (size_t t = 0; t < n_tokens; ++t) {
    table.quantize_activations(x.data(), q.data() + t * stride, shape.k);
  }
  std::vector<float> y(n_tokens * shape.n_rows);
  size_t turn = 0;
  const auto multiply = find(in_strips ? table.matmul_q8_strips : table.matmul_q8, type);
  for (auto _ : state) {
    MatmulWeight weight = weights.matrix(turn++, shape.n_rows);
    if (in_strips) weight.n_strip_rows = shape.n_rows;
    multiply(weight, n_tokens, q.data(), stride, y.data(), shape.n_rows);
    benchmark::DoNotOptimize(y.data());
  }
  count(state, weights, shape, n_tokens);
}

// Measures products with tokens that were prepared before.
void matmul_spread(benchmark::State& state, const kernels::Table& table, Type type, Shape shape,
                   size_t n_tokens) {
  const WeightPool& weights = pool(type, shape.k);
  const std::vector<float> x = random_floats(shape.k, 1.0f);
  std::vector<std::byte> q(kernels::q8_row_bytes(shape.k));
  table.quantize_activations(x.data(), q.data(), shape.k);
  const kernels::TokenGroups groups = {n_tokens};
  const size_t n_blocks = kernels::n_token_blocks(shape.k);
  std::vector<kernels::TokenBlock> blocks(n_tokens * n_blocks);
  for (size_t t = 0; t < n_tokens; ++t) {
    const size_t group = groups.of_token(t), first = groups.first(group);
    find(table.spread_token, type)(q.data(), shape.k, &blocks[first * n_blocks + t - first],
                                   groups.size(group));
  }
  std::vector<float> y(n_tokens * shape.n_rows);
  size_t turn = 0;
  for (auto _ : state) {
    MatmulWeight weight = weights.matrix(turn++, shape.n_rows);
    weight.n_strip_rows = shape.n_rows;
    find(table.matmul_spread, type)(weight, n_tokens, blocks.data(), y.data(), shape.n_rows);
    benchmark::DoNotOptimize(y.data());
  }
  count(state, weights, shape, n_tokens);
}

void matmul_f32(benchmark::State& state, const kernels::Table& table, Type type, Shape shape,
                size_t n_tokens) {
  const WeightPool& weights = pool(type, shape.k);
  const std::vector<float> x = random_floats(n_tokens * shape.k, 1.0f);
  std::vector<float> y(n_tokens * shape.n_rows);
  size_t turn = 0;
  for (auto _ : state) {
    find(table.matmul_f32, type)(weights.matrix(turn++, shape.n_rows), n_tokens, x.data(), shape.k,
                                 y.data(), shape.n_rows);
    benchmark::DoNotOptimize(y.data());
  }
  count(state, weights, shape, n_tokens);
}

// Registers all benchmarks but the reference's: the reference is not written to be fast.
bool register_all() {
  static std::vector<std::unique_ptr<kernels::Kernels>> chosen;
  const CpuFeatures available = detect_cpu_features();
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    for (const Shape& shape : kShapes) {
      for (const kernels::Implementation& implementation : kernels::implementations()) {
        if (!available.has_all(implementation.needs)) continue;
        if (std::string_view(implementation.name) == "reference") continue;
        chosen.push_back(
            std::make_unique<kernels::Kernels>(kernels::choose(available, implementation.name)));
        for (size_t n_tokens : {1, 2, 4, 8, 16, 32, 128}) {
          const kernels::Table& table = chosen.back()->table;
          const std::string tail = std::string("/") + info.name + "/" + shape.name + "/" +
                                   implementation.name + "/tokens:" + std::to_string(n_tokens);
          const Type type = info.type;
          for (const bool in_strips : {false, true}) {
            if (in_strips && find(table.matmul_q8_strips, type) == nullptr) continue;
            const std::string name = in_strips ? "matmul_q8_strips" : "matmul_q8";
            benchmark::RegisterBenchmark(
                (name + tail).c_str(), [&table, type, shape, n_tokens, in_strips](auto& state) {
                  matmul_q8(state, table, type, shape, n_tokens, in_strips);
                });
          }
          if (find(table.matmul_spread, type) != nullptr) {
            benchmark::RegisterBenchmark(("matmul_spread" + tail).c_str(),
                                         [&table, type, shape, n_tokens](auto& state) {
                                           matmul_spread(state, table, type, shape, n_tokens);
                                         });
          }
          benchmark::RegisterBenchmark(("matmul_f32" + tail).c_str(),
                                       [&table, type, shape, n_tokens](auto& state) {
                                         matmul_f32(state, table, type, shape, n_tokens);
                                       });
        }
      }
    }
  }
  return true;
}

[[maybe_unused]] const bool kRegistered = register_all();

}  // namespace
}  // namespace troika::bench
