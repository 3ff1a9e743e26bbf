// Measures times of kernels as multiples of a reference that runs in alternation with them. By
// these, two machines, or one machine in two different hours, can be compared.
#pragma once

#include <cstddef>
#include <functional>

namespace troika::bench {

struct Ratio {
  double median = 0.0;
  double low = 0.0;  // a tenth of the pairs are lower
  double high = 0.0;
};

// Runs `kernel` and `reference` in turns, so many pairs of them, and returns the quotients of their
// times. They are times of this thread on the processor, because what other programs take does not
// count. Each function is told the number of its turn.
Ratio compare(int n_pairs, const std::function<void(size_t turn)>& kernel,
              const std::function<void(size_t turn)>& reference);

}  // namespace troika::bench
