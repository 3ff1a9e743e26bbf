#include "base/threads/core_set.h"

#include <cerrno>

namespace troika {
namespace {

// Limits the cores that are asked for. Systems have fewer by far.
constexpr int kMostCoresToRead = 1 << 20;

}  // namespace

std::vector<int> cores_in_set(const ReadCores& read) {
  std::vector<int> cores;
  for (int n_cores = CPU_SETSIZE; n_cores <= kMostCoresToRead; n_cores *= 2) {
    std::vector<cpu_set_t> sets(static_cast<size_t>(n_cores / CPU_SETSIZE));
    const size_t bytes = sets.size() * sizeof(cpu_set_t);
    if (read(bytes, sets.data()) == 0) {
      for (int core = 0; core < n_cores; ++core) {
        if (CPU_ISSET_S(core, bytes, sets.data())) cores.push_back(core);
      }
      break;
    }
    if (errno != EINVAL) break;
  }
  return cores;
}

std::vector<int> cores_of_thread() {
  return cores_in_set(
      [](size_t bytes, cpu_set_t* set) { return sched_getaffinity(0, bytes, set); });
}

CoreSet::CoreSet(std::span<const int> cores) {
  for (const int core : cores) {
    if (core >= 0 && core < kMostCores) CPU_SET_S(core, sizeof(sets_), sets_.data());
  }
}

bool CoreSet::read_from_thread() { return sched_getaffinity(0, sizeof(sets_), sets_.data()) == 0; }

void CoreSet::bind_thread() const { sched_setaffinity(0, sizeof(sets_), sets_.data()); }

}  // namespace troika
