#include "base/threads/core_set.h"

#include <algorithm>
#include <cerrno>

namespace troika {
namespace {

// Limits the cores that a set has room for. Systems have fewer by far.
constexpr int kMostCores = 1 << 20;

}  // namespace

std::vector<int> cores_in_set(const ReadCores& read) {
  std::vector<int> cores;
  for (int n_cores = CPU_SETSIZE; n_cores <= kMostCores; n_cores *= 2) {
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

void bind_thread_to(const std::vector<int>& cores) {
  int last = 0;
  for (const int core : cores) last = std::max(last, std::min(core, kMostCores - 1));
  std::vector<cpu_set_t> sets(static_cast<size_t>(last / CPU_SETSIZE + 1));
  const size_t bytes = sets.size() * sizeof(cpu_set_t);
  for (const int core : cores) {
    if (core >= 0 && core <= last) CPU_SET_S(core, bytes, sets.data());
  }
  sched_setaffinity(0, bytes, sets.data());
}

}  // namespace troika
