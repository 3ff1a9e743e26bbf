// Which part of a subgraph's work one executable computes, where others compute the rest.
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
  int end = kEnd;  // kEnd: everything from `begin` on

  bool is_all() const { return begin == 0 && end == kEnd; }
  // Returns the part of the range that lies below n. A run may have fewer rows than the range was
  // made for.
  Range within(int n) const { return {std::min(begin, n), std::min(end, n)}; }
  // REQUIRES: the range has an end (see `within`).
  int size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// A slice is fixed when the executable is built; only the entries of its list are bound by a run.
// Slices of one op write apart from each other, into the values that the whole op would write: no
// copy joins them, and each element is computed as in the whole op, to the bit.
struct Slice {
  static constexpr int kNoList = -1;

  // Has for each op the part of its output: rows of a product's weight, or elements of an op that
  // goes element by element. Each range begins at a multiple of kRowGranularity. Empty: all columns
  // of all ops.
  std::vector<Range> columns;
  // Rows of the batch, or of the wanted outputs. The range refers to the shape that the executable
  // is built for: a pass of fewer rows leaves the last slices with less to do, or nothing.
  Range tokens;
  // kAttention: heads of keys and values, with the queries that share them. Whoever computes a head
  // also stores its keys and values.
  Range heads;
  // Which of Run::lists names the rows, neurons or positions that are computed at all. They may
  // differ from run to run. kNoList: all of them.
  int list = kNoList;

  // Counts the rows of a strip of panels, and the results of a cache line.
  static constexpr int kRowGranularity = 16;

  bool is_all() const {
    return columns.empty() && tokens.is_all() && heads.is_all() && list == kNoList;
  }
  Range columns_of(size_t op) const { return columns.empty() ? Range() : columns[op]; }
};

// Indices in ascending order, which a run binds.
using IndexList = std::span<const int>;

}  // namespace troika::lanes
