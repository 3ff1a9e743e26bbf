#include "measure/peaks.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "base/system.h"
#include "base/threads/team.h"
#include "kernels/probe.h"

namespace troika::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 5;
// The buffer is far larger than last caches (480 MB are reported on large servers), but fits
// memory.
constexpr size_t kReadBytes = size_t{2} << 30;
// A smaller buffer may lie in a cache that the system does not report.
constexpr size_t kLeastReadBytes = size_t{16} << 20;
// A measurement takes at least so long, so that it does not matter if threads start a little apart.
constexpr double kLeastSeconds = 0.03;

// Returns the operations per second of all workers together, / 1e12.
double tera_operations(Team& team, kernels::OperationsProbe* probe) {
  if (probe == nullptr) return 0.0;
  std::vector<double> operations(static_cast<size_t>(team.size()));
  const auto run = [&](size_t turns) {
    const Clock::time_point start = Clock::now();
    team.run([&](int worker) { operations[static_cast<size_t>(worker)] = probe(turns); });
    return seconds_since(start);
  };
  // Whoever waits for a worker that others have driven off its core does not learn how long its
  // turns take. So the shortest of a few runs counts, and the best rate.
  const auto shortest = [&](size_t turns) {
    double seconds = run(turns);
    for (int i = 1; i < kRuns; ++i) seconds = std::min(seconds, run(turns));
    return seconds;
  };
  size_t turns = 1000;
  while (run(turns) < kLeastSeconds || shortest(turns) < kLeastSeconds) turns *= 2;
  const double seconds = shortest(turns);
  double sum = 0;
  for (const double count : operations) sum += count;
  return sum / seconds * 1e-12;
}

struct ReadBuffer {
  std::unique_ptr<std::byte[]> begin;  // null where there is no room
  size_t bytes = 0;
};

// Makes the largest buffer that fits: limits on this process's addresses are known only by trying.
// A quarter of the free memory is enough, but where that lies within a cache.
ReadBuffer make_read_buffer() {
  const size_t least = std::max(kLeastReadBytes, last_cache_bytes());
  const size_t free_bytes = available_memory_bytes();
  const size_t most = std::max(free_bytes / 4, std::min(free_bytes / 2, 2 * least));
  for (size_t bytes = std::min(kReadBytes, most); bytes > least; bytes /= 2) {
    std::unique_ptr<std::byte[]> begin(new (std::nothrow) std::byte[bytes]);
    if (begin != nullptr) return {std::move(begin), bytes};
  }
  return {};
}

}  // namespace

struct ReadProbe::State {
  explicit State(int n_threads) : team(n_threads), sums(static_cast<size_t>(n_threads)) {
    if (buffer.begin == nullptr) return;
    for_part([](int, std::byte* begin, size_t n) { std::memset(begin, 1, n); });
  }

  template <typename Body>
  void for_part(Body&& body) {
    team.run([&](int worker) {
      const Share share = share_of(static_cast<int64_t>(buffer.bytes), worker, team.size(), 4096);
      body(worker, buffer.begin.get() + share.begin, static_cast<size_t>(share.end - share.begin));
    });
  }

  Team team;  // is made first, because its threads need room beside the buffer
  ReadBuffer buffer = make_read_buffer();
  std::vector<uint64_t> sums;
  kernels::Probes probes = kernels::choose_probes(detect_cpu_features());
};

ReadProbe::ReadProbe(int n_threads) : state_(std::make_unique<State>(n_threads)) {}
ReadProbe::~ReadProbe() = default;

bool ReadProbe::has_room() const { return state_->buffer.begin != nullptr; }

double ReadProbe::gb_s() {
  TROIKA_ASSERT(has_room());
  const Clock::time_point start = Clock::now();
  state_->for_part([&](int worker, const std::byte* begin, size_t n) {
    state_->sums[static_cast<size_t>(worker)] += state_->probes.read(begin, n);
  });
  const double seconds = seconds_since(start);
  // The sums are used here, so that the compiler cannot drop the reads.
  TROIKA_ASSERT(std::accumulate(state_->sums.begin(), state_->sums.end(), uint64_t{0}) != 0);
  return static_cast<double>(state_->buffer.bytes) / seconds * 1e-9;
}

Peaks measure_peaks(int n_threads, double known_read_gb_s) {
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
  peaks.read_gb_s = known_read_gb_s;
  if (known_read_gb_s > 0) return peaks;
  ReadProbe probe(n_threads);
  if (!probe.has_room()) return peaks;
  std::vector<double> rates(kRuns);
  for (double& rate : rates) rate = probe.gb_s();
  peaks.read_gb_s = median(rates);
  return peaks;
}

}  // namespace troika::measure
