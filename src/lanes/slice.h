// What of a subgraph's ops one executable computes, where others compute the rest.
#pragma once

#include <algorithm>
#include <climits>
#include <span>
#include <vector>

namespace troika::lanes {

// Consecutive rows, columns or heads.
struct Range {
  static constexpr int kEnd = INT_MAX;

  int begin = 0;
  int end = kEnd;  // kEnd: all behind the first

  bool is_all() const { return begin == 0 && end == kEnd; }
  // Returns the part of the range within so many, which may be fewer than it was made for.
  Range within(int n) const { return {std::min(begin, n), std::min(end, n)}; }
  // REQUIRES: within some number.
  int size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// All of what stands here is fixed when the executable is built; only which entries a list holds
// is bound by a run. Slices of one op write apart from each other, into the values that the whole
// op would write: no copy joins them, and each element is computed as in the whole op, to the bit.
struct Slice {
  static constexpr int kNoList = -1;

  // For each op a part of its output: rows of a product's weight, elements of what goes element by
  // element. Each begins at a multiple of kRowGranularity. Empty: all columns of all ops.
  std::vector<Range> columns;
  // Rows of the batch, or of the wanted outputs. They are fixed in the shape that the executable is
  // built for: a pass of fewer rows leaves the last slices with less to do, or nothing.
  Range tokens;
  // kAttention: heads of keys and values, with the queries that share them. Whoever has a head also
  // stores its keys and values.
  Range heads;
  // Which of Run::lists names the rows, neurons or positions that are computed at all: they may be
  // others in each run. kNoList: all.
  int list = kNoList;

  // Strips of panels have so many rows, and so has a cache line of results.
  static constexpr int kRowGranularity = 16;

  bool is_all() const {
    return columns.empty() && tokens.is_all() && heads.is_all() && list == kNoList;
  }
  Range columns_of(size_t op) const { return columns.empty() ? Range() : columns[op]; }
};

// Indices in ascending order, which a run binds.
using IndexList = std::span<const int>;

}  // namespace troika::lanes
