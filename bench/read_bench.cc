// Measures how fast memory can be read at best, which is what decoding is compared with.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "bench/weights.h"

namespace troika::bench {
namespace {

void read_memory(benchmark::State& state) {
  static const std::vector<uint64_t> words(kPoolBytes / sizeof(uint64_t), 3);
  const size_t n_threads = static_cast<size_t>(state.threads());
  const size_t n = words.size() / n_threads / 8 * 8;
  const uint64_t* mine = words.data() + static_cast<size_t>(state.thread_index()) * n;
  for (auto _ : state) {
    uint64_t sums[8] = {};
    for (size_t i = 0; i < n; i += 8) {
      for (size_t j = 0; j < 8; ++j) sums[j] += mine[i + j];
    }
    benchmark::DoNotOptimize(sums);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(n * sizeof(uint64_t)));
}

BENCHMARK(read_memory)->Threads(1);
BENCHMARK(read_memory)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace troika::bench
