// Measures a product of a prompt in int8 on one core: a vendor's runtime, alone and as a lane,
// beside the host lane and the peak of the core's int8 instruction, all in one run.
//
//   [TROIKA_OPENVINO=FOLDER] troika_vendor_bench [TOKENS K ROWS [CORE]]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
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

void print(const char* name, const Product& p, double us, double peak) {
  const double rate = p.operations() / us / 1e6;
  fmt::print("{:<28}{:>9.2f} ms{:>8.3f} T/s{:>6.0f} % of peak\n", name, us / 1e3, rate,
             100 * rate / peak);
}

int run(const Product& p, const std::vector<int>& cores) {
  bind_to_cores(cores);
  const char* const folder = std::getenv("TROIKA_OPENVINO");
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  const bench::OneProduct product(p, tensor::Type::kF32);
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
  print("openvino, the graph alone", p,
        bench::best_us(kRuns, [&] { graph.run(x.data(), y.data()); }), peak);

  lanes::VendorLane vendor({folder != nullptr ? folder : "", "CPU", cores}, kernels.table,
                           plan::Activations::kQ8, plan::Prefill::kInt8);
  print("openvino, as a lane", p, product.lane_us(vendor, p.n_tokens, kRuns), peak);
  lanes::HostLane host(kernels.table, {cores, 1}, plan::Activations::kQ8, plan::Prefill::kInt8);
  print("host lane", p, product.lane_us(host, p.n_tokens, kRuns), peak);
  const double again = measure::measure_peaks(1, 1.0).int8_tops;
  fmt::print("peak again {:.3f} T/s\n", again);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return troika::bench::run_product_bench(
      argc, argv, [](const troika::bench::Product& product, int n) { return run(product, {n}); });
}
