// Measures a product of a prompt in int8 and in bf16 on one core: a vendor's runtime, alone and as
// a lane, beside the host lane and the peaks of the core's instructions, all in one run.
//
//   [TROIKA_OPENVINO=FOLDER] troika_vendor_bench [TOKENS K ROWS [CORE]]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/system.h"
#include "bench/one_product.h"
#include "kernels/choose.h"
#include "lanes/host/host_lane.h"
#include "lanes/machine.h"
#include "lanes/vendor/vendor_lane.h"
#include "measure/peaks.h"

namespace {

using namespace troika;

constexpr int kRuns = 60;

using bench::Product;

using lanes::openvino::ProductKind;

struct Precision {
  const char* name;
  ProductKind kind;
  plan::Prefill prefill;
  double measure::Peaks::*peak;
};
constexpr Precision kPrecisions[] = {
    {"int8", ProductKind::kLevels, plan::Prefill::kInt8, &measure::Peaks::int8_tops},
    {"bf16", ProductKind::kBf16, plan::Prefill::kBf16, &measure::Peaks::bf16_tflops},
};

struct Bench {
  const Product& p;
  const std::vector<int>& cores;
  std::string folder;
  const kernels::Table& kernels;
  const bench::OneProduct& product;
};

void print(const char* name, const Product& p, double us, double peak) {
  const double rate = p.operations() / us / 1e6;
  fmt::print("  {:<26}{:>9.2f} ms{:>8.3f} T/s{:>6.0f} % of peak\n", name, us / 1e3, rate,
             100 * rate / peak);
}

void measure_graph(const Bench& bench, const Precision& precision, double peak) {
  const Product& p = bench.p;
  auto library = std::make_shared<lanes::openvino::Library>(bench.folder, bench.cores);
  library->limit_threads("CPU", 1);
  const RealClock clock;
  const size_t before = resident_anonymous_bytes();
  const double start = clock.now_us();
  const lanes::openvino::ProductShape shape = {0, p.k, p.n_rows, precision.kind};
  const lanes::openvino::ProductWeights weights(
      library, shape, [](std::byte* numbers) { numbers[0] = std::byte{1}; });
  lanes::openvino::ProductGraph graph(library, "CPU", weights, p.n_tokens);
  const double compiled = clock.now_us();
  const size_t n_x = static_cast<size_t>(p.n_tokens) * static_cast<size_t>(p.k);
  std::vector<std::byte> x(n_x * number_bytes(precision.kind), std::byte{0x3f});
  std::vector<float> y(static_cast<size_t>(p.n_tokens) * static_cast<size_t>(p.n_rows));
  graph.run(x.data(), y.data());
  fmt::print("  compile {:.1f} ms, first run {:.1f} ms, {:+.1f} MB for {:.1f} MB of weights\n",
             (compiled - start) / 1e3, (clock.now_us() - compiled) / 1e3,
             (static_cast<double>(resident_anonymous_bytes()) - static_cast<double>(before)) / 1e6,
             1e-6 * static_cast<double>(shape.weight_bytes()));
  print("openvino, the graph alone", p,
        bench::best_us(kRuns, [&] { graph.run(x.data(), y.data()); }), peak);
}

void measure_lanes(const Bench& bench, const Precision& precision, double peak) {
  lanes::VendorLane vendor({bench.folder, "CPU", bench.cores}, bench.kernels,
                           plan::Activations::kQ8, precision.prefill);
  print("openvino, as a lane", bench.p, bench.product.lane_us(vendor, bench.p.n_tokens, kRuns),
        peak);
  lanes::HostLane host(bench.kernels, {bench.cores, 1}, plan::Activations::kQ8, precision.prefill);
  print("host lane", bench.p, bench.product.lane_us(host, bench.p.n_tokens, kRuns), peak);
}

int run(const Product& p, const std::vector<int>& cores) {
  bind_to_cores(cores);
  const char* const folder = std::getenv("TROIKA_OPENVINO");
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  const bench::OneProduct product(p, tensor::Type::kF32);
  const Bench bench = {p, cores, folder != nullptr ? folder : "", kernels.table, product};
  const measure::Peaks peaks = measure::measure_peaks(1, 1.0);
  fmt::print("{} tokens, k {}, {} rows, core {}\n", p.n_tokens, p.k, p.n_rows, cores.front());
  for (const Precision& precision : kPrecisions) {
    const double peak = peaks.*precision.peak;
    fmt::print("{}: peak {:.3f} T/s\n", precision.name, peak);
    measure_graph(bench, precision, peak);
    measure_lanes(bench, precision, peak);
  }
  const measure::Peaks again = measure::measure_peaks(1, 1.0);
  fmt::print("peaks again: int8 {:.3f}, bf16 {:.3f} T/s\n", again.int8_tops, again.bf16_tflops);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return troika::bench::run_product_bench(
      argc, argv, [](const troika::bench::Product& product, int n) { return run(product, {n}); });
}
