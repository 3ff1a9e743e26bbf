// Times of kernels as multiples of a reference that runs in alternation with them: what two
// machines, or one machine in two different hours, can be compared by.
#pragma once

#include <cstddef>
#include <functional>

namespace troika::bench {

struct Ratio {
  double median = 0.0;
  double low = 0.0;  // a tenth of the pairs are lower
  double high = 0.0;
};

// Runs `kernel` and `reference` in turns, so many pairs of them, and gives the quotients of their
// times: of the processor time of this thread, because what other programs take does not count.
// Each is told the number of its turn.
Ratio compare(int n_pairs, const std::function<void(size_t turn)>& kernel,
              const std::function<void(size_t turn)>& reference);

}  // namespace troika::bench
