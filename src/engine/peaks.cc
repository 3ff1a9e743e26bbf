#include "engine/peaks.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/median.h"
#include "base/system.h"
#include "base/team.h"
#include "kernels/probe.h"

namespace troika::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 5;
// Long enough that threads which start a little apart do not matter.
constexpr double kLeastSeconds = 0.03;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Operations per second of all workers together, / 1e12.
double tera_operations(Team& team, kernels::OperationsProbe* probe) {
  if (probe == nullptr) return 0.0;
  std::vector<double> operations(static_cast<size_t>(team.size()));
  const auto run = [&](size_t turns) {
    const Clock::time_point start = Clock::now();
    team.run([&](int worker) { operations[static_cast<size_t>(worker)] = probe(turns); });
    return seconds_since(start);
  };
  size_t turns = 1000;
  while (run(turns) < kLeastSeconds) turns *= 2;
  std::vector<double> rates;
  for (int i = 0; i < kRuns; ++i) {
    const double seconds = run(turns);
    double sum = 0;
    for (const double count : operations) sum += count;
    rates.push_back(sum / seconds * 1e-12);
  }
  return median(rates);
}

}  // namespace

double measure_read_gb_s(int n_threads) {
  // Far more than last caches hold (480 MB are reported on large servers), within memory.
  constexpr size_t kWantedBytes = size_t{2} << 30;
  const size_t bytes = std::min(kWantedBytes, available_memory_bytes() / 4) / 4096 * 4096;
  const std::unique_ptr<std::byte[]> buffer(new std::byte[bytes]);
  const kernels::Probes probes = kernels::choose_probes(detect_cpu_features());
  Team team(n_threads);
  std::vector<uint64_t> sums(static_cast<size_t>(n_threads));
  const auto for_part = [&](auto&& body) {
    team.run([&](int worker) {
      const Part part = part_of(static_cast<int64_t>(bytes), worker, n_threads, 4096);
      body(worker, buffer.get() + part.begin, static_cast<size_t>(part.end - part.begin));
    });
  };
  for_part([](int, std::byte* begin, size_t n) { std::memset(begin, 1, n); });
  std::vector<double> rates;
  for (int run = 0; run < kRuns; ++run) {
    const Clock::time_point start = Clock::now();
    for_part([&](int worker, const std::byte* begin, size_t n) {
      sums[static_cast<size_t>(worker)] += probes.read(begin, n);
    });
    rates.push_back(static_cast<double>(bytes) / seconds_since(start) * 1e-9);
  }
  // The sums are used, so that the reads cannot be dropped.
  TROIKA_ASSERT(sums[0] != 0);
  return median(rates);
}

Peaks measure_peaks(int n_threads) {
  const kernels::Probes probes = kernels::choose_probes(detect_cpu_features());
  Peaks peaks;
  {
    Team team(n_threads);
    peaks.int8_tops = tera_operations(team, probes.int8);
    peaks.bf16_tflops = tera_operations(team, probes.bf16);
    peaks.f32_tflops = tera_operations(team, probes.f32);
  }
  peaks.int8_name = probes.int8_name;
  peaks.bf16_name = probes.bf16_name;
  peaks.f32_name = probes.f32_name;
  peaks.read_gb_s = measure_read_gb_s(n_threads);
  return peaks;
}

}  // namespace troika::engine
