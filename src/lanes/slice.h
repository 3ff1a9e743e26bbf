// Which part of a subgraph's work one executable computes, where others compute the rest.
#pragma once

#include <algorithm>
#include <climits>
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

// A slice is fixed when the executable is built. Slices of one op write apart from each other, into
// the values that the whole op would write: no copy joins them, and each element is computed as in
// the whole op, to the bit.
struct Slice {
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

  // Counts the rows of a strip of panels, and the results of a cache line.
  static constexpr int kRowGranularity = 16;

  bool is_all() const { return columns.empty() && tokens.is_all() && heads.is_all(); }
  Range columns_of(size_t op) const { return columns.empty() ? Range() : columns[op]; }
};

}  // namespace troika::lanes
