// Makes one product of a prompt's subgraph as lanes get it, for benchmarks of lanes.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <random>
#include <vector>

#include "base/clock.h"
#include "lanes/lane.h"
#include "lanes/machine.h"
#include "lanes/subgraph.h"
#include "tensor/codec.h"
#include "weights/store.h"

namespace troika::bench {

struct Product {
  int n_tokens, k, n_rows;
  double operations() const { return 2.0 * n_tokens * k * n_rows; }
};

// Returns the fastest of `n_runs`, in microseconds.
template <typename Body>
double best_us(int n_runs, Body body) {
  const RealClock clock;
  double best = 1e30;
  for (int i = 0; i < n_runs; ++i) {
    const double start = clock.now_us();
    body();
    best = std::min(best, clock.now_us() - start);
  }
  return best;
}

inline std::vector<float> random_floats(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// Has random weights of a type, packed for int8 too, and a random input.
struct OneProduct {
  OneProduct(const Product& p, tensor::Type type, lanes::Memory* memory = nullptr) {
    const auto k = static_cast<size_t>(p.k), n_rows = static_cast<size_t>(p.n_rows);
    const size_t row_bytes = tensor::row_bytes(type, k);
    weight.resize(row_bytes * n_rows);
    const std::vector<float> floats = random_floats(k * n_rows, 1);
    for (size_t row = 0; row < n_rows; ++row) {
      tensor::quantize_row(type, floats.data() + row * k, weight.data() + row * row_bytes, k);
    }
    blueprint.values = {{"x", p.k, false}, {"y", p.n_rows, false}};
    blueprint.weights.push_back({"w", 0, p.n_rows, p.k, p.n_rows, 0});
    model::Op op{model::OpKind::kLinear};
    op.layer = 0;
    op.inputs[0] = 0;
    op.output = 1;
    op.weight = 0;
    blueprint.ops.push_back(op);
    std::vector<weights::StoredWeight> constants(1);
    constants[0].matrix = {type, weight.data(), row_bytes, p.n_rows, p.k};
    store = std::make_unique<weights::Store>(blueprint, std::move(constants));
    const model::WeightId id[] = {0};
    store->pack_int8(id, 1);
    buffers = std::make_unique<lanes::Buffers>(blueprint, p.n_tokens, 1, true, 1, memory);
    const std::vector<float> x = random_floats(k * static_cast<size_t>(p.n_tokens), 2);
    std::copy(x.begin(), x.end(), buffers->view(0).floats());
  }

  // Returns what the lane takes for the product as part of a prompt.
  double lane_us(lanes::Lane& lane, int n_tokens, int n_runs) const {
    const lanes::Subgraph subgraph = {&blueprint, blueprint.ops, "ffn"};
    const auto executable =
        lane.build(subgraph, {plan::Phase::kPrompt, n_tokens}, *store, *buffers);
    lanes::Run run;
    run.phase = plan::Phase::kPrompt;
    run.n_tokens = n_tokens;
    return best_us(n_runs, [&] {
      lanes::Ended ended;
      lane.submit(*executable, run, ended);
      ended.latch.wait();
    });
  }

  model::Blueprint blueprint;
  std::vector<std::byte> weight;
  std::unique_ptr<weights::Store> store;
  std::unique_ptr<lanes::Buffers> buffers;
};

// Is the main() of a benchmark with the arguments TOKENS K ROWS and one number more.
template <typename Body>
int run_product_bench(int argc, char** argv, Body body) {
  const auto number = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  try {
    return body(Product{number(1, 256), number(2, 2048), number(3, 2048)}, number(4, 1));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace troika::bench
