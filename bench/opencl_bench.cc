// Measures products on an OpenCL device whose driver has one core, as a lane, beside the host lane
// and the peak of the core's float instruction, all in one run; then what the driver's own
// ways of waiting take.
//
//   troika_opencl_bench [TOKENS K ROWS [CORE]]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/clock.h"
#include "base/median.h"
#include "base/system.h"
#include "base/threads/spin.h"
#include "bench/one_product.h"
#include "kernels/choose.h"
#include "lanes/host/host_lane.h"
#include "lanes/machine.h"
#include "lanes/opencl/opencl_lane.h"
#include "measure/peaks.h"
#include "tensor/codec.h"

namespace {

using namespace troika;

constexpr int kRuns = 20;
constexpr int kHandovers = 1000;
constexpr int kPeaks = 3;

using bench::Product;

double lane_us(lanes::Lane& lane, const Product& p, tensor::Type type) {
  return bench::OneProduct(p, type, lane.memory()).lane_us(lane, p.n_tokens, kRuns);
}

void print(const std::string& name, const Product& p, double us, double peak) {
  const double rate = p.operations() / us / 1e6;
  fmt::print("{:<34}{:>9.3f} ms{:>9.1f} GOPS{:>6.0f} % of peak\n", name, us / 1e3, rate * 1e3,
             100 * rate / peak);
}

void print_products(const Product& p, const lanes::opencl::DeviceOptions& options,
                    const kernels::Kernels& kernels, double peak) {
  fmt::print("{} tokens, k {}, {} rows\n", p.n_tokens, p.k, p.n_rows);
  const auto device = std::make_shared<const lanes::opencl::Device>(options);
  lanes::OpenclLane in_floats(device, options, kernels.table, {});
  lanes::HostLane host(kernels.table, {options.cores, 1}, plan::Activations::kF32,
                       plan::Prefill::kF32);
  for (const tensor::Type type : {tensor::Type::kQ4_0, tensor::Type::kQ4_K, tensor::Type::kQ8_0,
                                  tensor::Type::kQ6_K, tensor::Type::kF16, tensor::Type::kF32}) {
    const char* const name = tensor::type_name(type);
    print(fmt::format("{} in floats, opencl", name), p, lane_us(in_floats, p, type), peak);
    print(fmt::format("{} in floats, host", name), p, lane_us(host, p, type), peak);
  }
  lanes::OpenclLane in_int8(device, options, kernels.table,
                            {plan::Activations::kF32, plan::Prefill::kInt8});
  print("int8, opencl", p, lane_us(in_int8, p, tensor::Type::kQ8_0), peak);
  // What the device has extensions for stands beside what needs none.
  if (device->entry().has_dots) {
    lanes::opencl::DeviceOptions plain = options;
    plain.extensions = lanes::opencl::Extensions::kNone;
    lanes::OpenclLane without(device, plain, kernels.table,
                              {plan::Activations::kF32, plan::Prefill::kInt8});
    print("int8 without dots, opencl", p, lane_us(without, p, tensor::Type::kQ8_0), peak);
  }
  if (device->entry().has_halves) {
    lanes::OpenclLane in_halves(device, options, kernels.table,
                                {plan::Activations::kF32, plan::Prefill::kF16});
    for (const tensor::Type type : {tensor::Type::kQ4_0, tensor::Type::kQ4_K}) {
      print(fmt::format("{} in halves, opencl", tensor::type_name(type)), p,
            lane_us(in_halves, p, type), peak);
    }
  }
}

// Is the source of a kernel that does next to nothing.
constexpr const char* kNothing = "__kernel void nothing(__global int* x) { x[0] = 1; }";

void print_handovers(const lanes::opencl::DeviceOptions& options) {
  using namespace lanes::opencl;
  const auto device = std::make_shared<const Device>(options);
  Programs programs(device, "");
  BoundKernel kernel(device, programs.build(kNothing, "nothing", ""), "nothing");
  const DeviceMemory memory(device, 64);
  kernel.set(0, memory.handle());
  const Api& api = device->api();
  const RealClock clock;
  const auto median_us = [&](auto body) {
    std::vector<double> times;
    for (int i = 0; i < kHandovers; ++i) {
      const double start = clock.now_us();
      body();
      times.push_back(clock.now_us() - start);
    }
    return median(times);
  };
  const double finish_us = median_us([&] {
    kernel.run(1);
    api.finish(device->queue());
  });
  const auto with_event = [&](auto wait) {
    return median_us([&] {
      Event event = nullptr;
      kernel.run(1);
      api.marker(device->queue(), 0, nullptr, &event);
      api.flush(device->queue());
      wait(event);
      api.release_event(event);
    });
  };
  const double wait_us = with_event([&](Event event) { api.wait(1, &event); });
  const double poll_us = with_event([&](Event event) {
    Int state = 1;
    while (state > kComplete) {
      api.event_info(event, kEventStatus, sizeof(state), &state, nullptr);
      pause_cpu();
    }
  });
  constexpr int kFilled = 100;
  const double filled_us = median_us([&] {
                             for (int i = 0; i < kFilled; ++i) kernel.run(1);
                             api.finish(device->queue());
                           }) /
                           kFilled;
  fmt::print(
      "handover, median of {}: clFinish {:.1f} us, clWaitForEvents {:.1f} us, polling {:.1f} "
      "us; a kernel in a filled queue {:.1f} us\n",
      kHandovers, finish_us, wait_us, poll_us, filled_us);
}

int run(const Product& p, int core) {
  const char* const file = std::getenv("TROIKA_OPENCL");
  const lanes::opencl::DeviceOptions options = {file != nullptr ? file : "", 0, {core}};
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  bind_to_cores(std::vector<int>{core});
  // Another program may share the core meanwhile, so the best of some runs counts.
  double peak = 0.0;
  for (int i = 0; i < kPeaks; ++i) {
    peak = std::max(peak, measure::measure_peaks(1, 1.0).f32_tflops);
  }
  fmt::print("core {}: peak {:.1f} GOPS of floats\n", core, peak * 1e3);
  print_products(p, options, kernels, peak);
  print_products({1, p.k, p.n_rows}, options, kernels, peak);
  print_handovers(options);
  fmt::print("peak again {:.1f} GOPS\n", measure::measure_peaks(1, 1.0).f32_tflops * 1e3);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return troika::bench::run_product_bench(
      argc, argv, [](const troika::bench::Product& product, int n) { return run(product, n); });
}
