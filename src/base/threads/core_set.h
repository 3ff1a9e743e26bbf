// Sets of cores as the system gives and takes them, however many cores it may have.
#pragma once

#include <sched.h>

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace troika {

// Writes a set of so many bytes as sched_getaffinity does, which fails with EINVAL where the system
// may have more cores than the set has room for.
using ReadCores = std::function<int(size_t bytes, cpu_set_t* set)>;

// Returns the numbers of the cores in the set that `read` writes, with as much room as it wants;
// none where it fails.
std::vector<int> cores_in_set(const ReadCores& read);

// Returns the numbers of the cores on which the calling thread may run; none where the system does
// not say.
std::vector<int> cores_of_thread();

// A set of cores that takes no memory beside itself.
class CoreSet {
 public:
  // Systems have no more cores than this; those beyond are left out.
  static constexpr int kMostCores = 8 * CPU_SETSIZE;

  CoreSet() = default;
  explicit CoreSet(std::span<const int> cores);
  // Takes the cores on which the calling thread may run. Returns false where the system does not
  // say.
  bool read_from_thread();
  // Binds the calling thread to the cores. It is only a wish: where the system refuses, the thread
  // runs elsewhere.
  void bind_thread() const;

 private:
  std::array<cpu_set_t, kMostCores / CPU_SETSIZE> sets_{};
};

}  // namespace troika
