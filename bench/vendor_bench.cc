// A product of a prompt in int8 on one core: a vendor's runtime, alone and as a lane, beside the
// host lane and the peak of the core's int8 instruction, all in one run.
//
//   [TROIKA_OPENVINO=FOLDER] troika_vendor_bench [TOKENS K ROWS [CORE]]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "base/clock.h"
#include "base/system.h"
#include "kernels/choose.h"
#include "lanes/host/host_lane.h"
#include "lanes/machine.h"
#include "lanes/vendor/vendor_lane.h"
#include "measure/peaks.h"

namespace {

using namespace troika;

constexpr int kRuns = 60;

struct Product {
  int n_tokens, k, n_rows;
  double operations() const { return 2.0 * n_tokens * k * n_rows; }
};

// The fastest of many runs, in microseconds.
template <typename Body>
double best_us(Body body) {
  const RealClock clock;
  double best = 1e30;
  for (int i = 0; i < kRuns; ++i) {
    const double start = clock.now_us();
    body();
    best = std::min(best, clock.now_us() - start);
  }
  return best;
}

std::vector<float> random_floats(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

struct OneProduct {
  explicit OneProduct(const Product& p)
      : floats(random_floats(static_cast<size_t>(p.k) * static_cast<size_t>(p.n_rows), 1)) {
    blueprint.values = {{"x", p.k, false}, {"y", p.n_rows, false}};
    blueprint.weights.push_back({"w", 0, p.n_rows, p.k, p.n_rows, 0});
    model::Op op{model::OpKind::kLinear};
    op.layer = 0;
    op.inputs[0] = 0;
    op.output = 1;
    op.weight = 0;
    blueprint.ops.push_back(op);
    std::vector<weights::Constant> constants(1);
    constants[0].matrix = {tensor::Type::kF32, reinterpret_cast<std::byte*>(floats.data()),
                           static_cast<size_t>(p.k) * sizeof(float), p.n_rows, p.k};
    store = std::make_unique<weights::Store>(blueprint, std::move(constants));
    const model::WeightId id[] = {0};
    store->pack_int8(id, 1);
    buffers = std::make_unique<lanes::Buffers>(blueprint, p.n_tokens, 1);
    const std::vector<float> x =
        random_floats(static_cast<size_t>(p.k) * static_cast<size_t>(p.n_tokens), 2);
    std::copy(x.begin(), x.end(), buffers->view(0).floats());
  }
  model::Blueprint blueprint;
  std::vector<float> floats;
  std::unique_ptr<weights::Store> store;
  std::unique_ptr<lanes::Buffers> buffers;
};

double lane_us(lanes::Lane& lane, const OneProduct& product, int n_tokens) {
  const lanes::Subgraph subgraph = {&product.blueprint, product.blueprint.ops, "ffn"};
  const auto executable =
      lane.build(subgraph, {plan::Phase::kPrompt, n_tokens}, *product.store, *product.buffers);
  lanes::Run run;
  run.n_tokens = n_tokens;
  return best_us([&] {
    lanes::Ended ended;
    lane.submit(*executable, run, ended);
  });
}

void print(const char* name, const Product& p, double us, double peak) {
  const double rate = p.operations() / us / 1e6;
  fmt::print("{:<28}{:>9.2f} ms{:>8.3f} T/s{:>6.0f} % of peak\n", name, us / 1e3, rate,
             100 * rate / peak);
}

int run(const Product& p, const std::vector<int>& cores) {
  bind_to_cores(cores);
  const char* const folder = std::getenv("TROIKA_OPENVINO");
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  const OneProduct product(p);
  const double peak = measure::measure_peaks(1, 1.0).int8_tops;
  fmt::print("{} tokens, k {}, {} rows, core {}; peak {:.3f} T/s\n", p.n_tokens, p.k, p.n_rows,
             cores.front(), peak);

  auto library = std::make_shared<lanes::openvino::Library>(folder != nullptr ? folder : "", cores);
  library->limit_threads("CPU", 1);
  const RealClock clock;
  const size_t before = resident_anonymous_bytes();
  const double start = clock.now_us();
  const lanes::openvino::ProductWeights weights(library, p.k, p.n_rows,
                                                [](int8_t* levels) { levels[0] = 1; });
  lanes::openvino::ProductGraph graph(library, "CPU", weights, p.n_tokens);
  const double compiled = clock.now_us();
  std::vector<uint8_t> x(static_cast<size_t>(p.n_tokens) * static_cast<size_t>(p.k), 3);
  std::vector<float> y(static_cast<size_t>(p.n_tokens) * static_cast<size_t>(p.n_rows));
  graph.run(x.data(), y.data());
  fmt::print("compile {:.1f} ms, first run {:.1f} ms, {:+.1f} MB for {:.1f} MB of levels\n",
             (compiled - start) / 1e3, (clock.now_us() - compiled) / 1e3,
             (static_cast<double>(resident_anonymous_bytes()) - static_cast<double>(before)) / 1e6,
             1e-6 * p.k * p.n_rows);
  print("openvino, the graph alone", p, best_us([&] { graph.run(x.data(), y.data()); }), peak);

  lanes::VendorLane vendor({folder != nullptr ? folder : "", "CPU", cores}, kernels.table,
                           plan::Activations::kQ8, plan::Prefill::kInt8);
  print("openvino, as a lane", p, lane_us(vendor, product, p.n_tokens), peak);
  lanes::HostLane host(kernels.table, {cores, 1}, plan::Activations::kQ8, plan::Prefill::kInt8);
  print("host lane", p, lane_us(host, product, p.n_tokens), peak);
  const double again = measure::measure_peaks(1, 1.0).int8_tops;
  fmt::print("peak again {:.3f} T/s\n", again);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  try {
    return run({number(1, 256), number(2, 2048), number(3, 2048)}, {number(4, 1)});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
