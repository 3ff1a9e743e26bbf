#include "bench/record/ratios.h"

#include <time.h>

#include <algorithm>
#include <vector>

namespace troika::bench {
namespace {

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

Ratio compare(int n_pairs, const std::function<void(size_t turn)>& kernel,
              const std::function<void(size_t turn)>& reference) {
  std::vector<double> ratios;
  for (size_t pair = 0; pair < static_cast<size_t>(n_pairs) + 1; ++pair) {
    const double start = thread_seconds();
    kernel(pair);
    const double middle = thread_seconds();
    reference(pair);
    const double end = thread_seconds();
    if (pair > 0) ratios.push_back((middle - start) / (end - middle));  // the first pair warms up
  }
  std::sort(ratios.begin(), ratios.end());
  const size_t n = ratios.size();
  return {ratios[n / 2], ratios[n / 10], ratios[n - 1 - n / 10]};
}

}  // namespace troika::bench
