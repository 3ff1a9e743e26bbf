// The middle of some figures: what stands for them where a few may be far off.
#pragma once

#include <algorithm>
#include <vector>

namespace troika {

// Returns the middle value, of an even number the mean of the middle two; 0 of none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const size_t half = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace troika
