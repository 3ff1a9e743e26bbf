// Measures what it takes to hand work from one lane to another: between two cores, and between a
// core and a device that runs on the other one, with fast and with ordinary handovers (H8).
//
//   [TROIKA_OPENCL=FILE] [TROIKA_OPENVINO=FOLDER] troika_handover_bench
//
// Prints a JSON array. A kind of device that is not here is left out, and why goes to the standard
// error.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "base/system.h"
#include "base/threads/spin.h"
#include "bench/busy_lane.h"
#include "bench/one_product.h"
#include "kernels/choose.h"
#include "lanes/opencl/opencl_lane.h"
#include "lanes/threaded_lane.h"
#include "lanes/vendor/vendor_lane.h"
#include "schedule/runner.h"

namespace {

using namespace troika;
using bench::BusyLane;
using plan::HandoverKind;

constexpr double kTaskUs[] = {50.0, 100.0, 200.0, 500.0, 1000.0};
constexpr int kTasks = 200;
constexpr int kPasses = 4;  // the first pass teaches how long waits are
constexpr int kPairs = 25, kRuns = 11;

struct Measured {
  std::string lanes, phase, handover;
  double task_us, us;
  double awake;  // the share of its waits in which the first core was awake; less than 0: not known
};

std::string json_of(const Measured& m) {
  return fmt::format(
      R"({{"lanes": "{}", "phase": "{}", "handover": "{}", "task_us": {:.0f}, "us": {:.2f}, "awake": {}}})",
      m.lanes, m.phase, m.handover, m.task_us, m.us,
      m.awake < 0.0 ? "null" : fmt::format("{:.3f}", m.awake));
}

double awake_share(const BusyLane& lane) {
  return lane.waiting_us > 0.0 ? lane.waiting_cpu_us / lane.waiting_us : 0.0;
}

// Returns the passes' nodes: tasks one behind the other, on two lanes in turn. Null: the lane has
// none.
std::vector<schedule::Node> in_turn(const lanes::Executable* first, const lanes::Executable* second,
                                    int n_pairs) {
  std::vector<schedule::Node> nodes;
  const auto add = [&](int lane, const lanes::Executable* executable) {
    if (executable == nullptr) return;
    const int i = static_cast<int>(nodes.size());
    schedule::Node& node = nodes.emplace_back();
    node.lane = lane;
    node.executable = executable;
    node.name = "task";
    if (i > 0) node.waits_for = {i - 1};
  };
  for (int i = 0; i < n_pairs; ++i) {
    add(0, first);
    add(1, second);
  }
  return nodes;
}

// Measures the time from the end of a task to the start of the next one, on the other core.
Measured between_cores(const std::vector<int>& cores, double task_us, HandoverKind handover) {
  bench::GivenMachine machine;
  std::vector<std::unique_ptr<lanes::ThreadedLane>> owned;
  BusyLane* busy[2];
  std::unique_ptr<lanes::Executable> executables[2];
  for (size_t i = 0; i < 2; ++i) {
    auto lane = std::make_unique<BusyLane>(cores[i], task_us);
    busy[i] = lane.get();
    executables[i] = lane->make(1);
    owned.push_back(std::make_unique<lanes::ThreadedLane>(std::move(lane), handover));
    machine.add(owned.back().get());
  }
  const schedule::Pass pass(in_turn(executables[0].get(), executables[1].get(), kTasks / 2));
  schedule::Runner runner(machine);
  for (int i = 0; i < kPasses; ++i) runner.run(pass, lanes::Run());
  std::vector<double> gaps;
  for (size_t i = kTasks; i + 1 < static_cast<size_t>(kPasses) * kTasks; ++i) {
    if ((i + 1) % kTasks == 0) continue;  // the next task belongs to another pass
    gaps.push_back(busy[(i + 1) % 2]->starts_us[(i + 1) / 2] - busy[i % 2]->ends_us[i / 2]);
  }
  return {"core, core", "any",        plan::handover_name(handover),
          task_us,      median(gaps), awake_share(*busy[0])};
}

// Measures how long the system takes to wake a thread that sleeps on a number.
Measured by_futex(const std::vector<int>& cores, double task_us) {
  std::atomic<int> turn{0};
  std::vector<double> ends(kTasks), starts(kTasks);
  const auto work = [&](int me) {
    bind_to_cores(std::vector<int>{cores[static_cast<size_t>(me)]});
    for (int i = me; i < kTasks; i += 2) {
      for (int now = turn.load(); now != i; now = turn.load()) turn.wait(now);
      starts[static_cast<size_t>(i)] = RealClock().now_us();
      while (RealClock().now_us() < starts[static_cast<size_t>(i)] + task_us) pause_cpu();
      ends[static_cast<size_t>(i)] = RealClock().now_us();
      turn.store(i + 1);
      turn.notify_all();
    }
  };
  std::thread other([&] { work(1); });
  std::thread mine([&] { work(0); });
  other.join();
  mine.join();
  std::vector<double> gaps;
  for (size_t i = 1; i < kTasks; ++i) gaps.push_back(starts[i] - ends[i - 1]);
  return {"core, core", "any", "futex", task_us, median(gaps), -1.0};
}

// Returns the median time of a pass, for one pair of tasks.
double pair_us(lanes::Lane& host, lanes::Lane& device, const lanes::Executable* on_host,
               const lanes::Executable* on_device, plan::Shape shape) {
  bench::GivenMachine machine;
  machine.add(&host);
  machine.add(&device);
  const schedule::Pass pass(in_turn(on_host, on_device, kPairs));
  schedule::Runner runner(machine);
  lanes::Run run;
  run.phase = shape.phase;
  run.n_tokens = shape.n_rows;
  std::vector<double> times;
  for (int i = 0; i < kRuns; ++i) {
    const double start = machine.clock().now_us();
    runner.run(pass, run);
    times.push_back(machine.clock().now_us() - start);
  }
  return median(times) / kPairs;
}

// Makes a device's lane for a way of handing over.
using MakeDevice = std::function<std::unique_ptr<lanes::Lane>(HandoverKind)>;

// Measures what a pair of tasks, on a core and on the device, takes more than both tasks alone:
// half of it is one handover.
Measured with_device(const std::string& name, const MakeDevice& make, int host_core, double task_us,
                     plan::Shape shape, HandoverKind handover) {
  const auto device = make(handover);
  const bench::OneProduct product({shape.n_rows, 1024, 1024}, tensor::Type::kQ4_0,
                                  device->memory());
  const lanes::Subgraph subgraph = {&product.blueprint, product.blueprint.ops, "ffn"};
  const auto on_device = device->build(subgraph, shape, *product.store, *product.buffers);
  auto busy = std::make_unique<BusyLane>(host_core, task_us);
  BusyLane& watched = *busy;
  const auto on_host = busy->make(1);
  lanes::ThreadedLane host(std::move(busy), handover);
  const double device_us = pair_us(host, *device, nullptr, on_device.get(), shape);
  const double host_us = pair_us(host, *device, on_host.get(), nullptr, shape);
  watched.waiting_us = watched.waiting_cpu_us = 0.0;
  const double both_us = pair_us(host, *device, on_host.get(), on_device.get(), shape);
  return {"core, " + name,
          shape.phase == plan::Phase::kStep ? "step" : "prompt",
          plan::handover_name(handover),
          task_us,
          (both_us - device_us - host_us) / 2,
          awake_share(watched)};
}

void add_devices(const std::vector<int>& cores, std::vector<Measured>* all) {
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  const char* const file = std::getenv("TROIKA_OPENCL");
  const char* const folder = std::getenv("TROIKA_OPENVINO");
  const auto opencl = [&](HandoverKind handover) -> std::unique_ptr<lanes::Lane> {
    lanes::opencl::DeviceOptions options;
    options.library = file != nullptr ? file : "";
    options.cores = {cores[1]};
    options.has_fast_handover = handover == HandoverKind::kFast;
    return std::make_unique<lanes::OpenclLane>(options, kernels.table, lanes::OpenclPrecision());
  };
  const auto vendor = [&](HandoverKind handover) -> std::unique_ptr<lanes::Lane> {
    auto inner = std::make_unique<lanes::VendorLane>(
        lanes::VendorOptions{folder != nullptr ? folder : "", "CPU", {cores[1]}}, kernels.table,
        plan::Activations::kQ8, plan::Prefill::kInt8);
    return std::make_unique<lanes::ThreadedLane>(std::move(inner), handover);
  };
  const struct {
    const char* name;
    MakeDevice make;
    plan::Shape shape;
  } devices[] = {{"OpenCL", opencl, {plan::Phase::kPrompt, 8}},
                 {"OpenCL", opencl, {plan::Phase::kStep, 1}},
                 {"OpenVINO", vendor, {plan::Phase::kPrompt, 8}}};
  for (const auto& device : devices) {
    try {
      for (const double task_us : kTaskUs) {
        for (const HandoverKind handover : {HandoverKind::kOrdinary, HandoverKind::kFast}) {
          all->push_back(
              with_device(device.name, device.make, cores[0], task_us, device.shape, handover));
        }
      }
    } catch (const Error& error) {
      fmt::print(stderr, "{} is left out. {}\n", device.name, error.what());
    }
  }
}

int measure() {
  const std::vector<int> cores = usable_core_numbers();
  if (cores.size() < 2) throw Error("Two lanes need two cores, and this process may use one.");
  std::vector<Measured> all;
  for (const double task_us : kTaskUs) {
    all.push_back(by_futex(cores, task_us));
    for (const HandoverKind handover : {HandoverKind::kOrdinary, HandoverKind::kFast}) {
      all.push_back(between_cores(cores, task_us, handover));
    }
  }
  add_devices(cores, &all);
  std::string text;
  for (const Measured& one : all) text += (text.empty() ? "" : ",\n ") + json_of(one);
  fmt::print("[{}]\n", text);
  return EXIT_SUCCESS;
}

}  // namespace

int main() {
  try {
    return measure();
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
