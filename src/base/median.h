// The median, which stands for figures of which a few may be far off.
#pragma once

#include <algorithm>
#include <vector>

namespace troika {

// Returns the middle value. For an even number of values this is the mean of the middle two; for
// none it is 0.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const size_t half = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace troika
