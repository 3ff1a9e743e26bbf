// The median, which stands for figures of which a few may be far off, and percentiles, which tell
// how far off these are.
#pragma once

#include <algorithm>
#include <cmath>
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

// Returns the least value that `share` (0 to 1) of the values do not exceed, by the nearest rank;
// for none it is 0.
inline double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  constexpr double kRounding = 1e-9;  // 0.9 * 10 may be a little more than 9
  const double rank = std::ceil(share * static_cast<double>(values.size()) - kRounding);
  return values[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace troika
