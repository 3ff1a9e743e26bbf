// Searches the lanes of kinds of subgraphs: all assignments where they are few, else the better
// ones beside the best that is known, up to a bound.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace troika::solve {

// Up to so many assignments are all tried: eight kinds on three lanes have 6,561, six on four
// 4,096. Each takes a look at every subgraph of a pass, which is tens of microseconds.
inline constexpr size_t kMostOfAll = 8'192;
// Bounds what is tried where there are more.
inline constexpr size_t kMostTried = 4'096;

struct FoundAssignment {
  std::vector<int>
      lanes;  // the lane of each kind; empty: none of those that were tried is possible
  bool is_bounded = false;  // says that not all assignments were tried, so that a better one may be
  size_t n_tried = 0;
};

// Returns the assignment of least time, or, where `is_bounded`, the best of those that were tried.
// `allowed` has the lanes of each kind, and none is empty.
// `us_of` returns the time of an assignment, or nothing where it is impossible.
FoundAssignment find_assignment(
    const std::vector<std::vector<int>>& allowed,
    const std::function<std::optional<double>(const std::vector<int>& lanes)>& us_of);

}  // namespace troika::solve
