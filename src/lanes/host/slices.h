// Which slices of a subgraph a host lane computes, and what remains of a run for one of them.
#pragma once

#include "lanes/lane.h"
#include "lanes/subgraph.h"

namespace troika::lanes {

// Throws Error for a slice that this lane does not compute.
void check_slice(const Subgraph& subgraph, const LaneInfo& info);

// The rows of a run that fall to one executable.
class TokenSlice {
 public:
  explicit TokenSlice(const Subgraph& subgraph);

  bool is_all() const { return tokens_.is_all(); }
  // Returns the run over the present rows that fall to this executable.
  Run of(const Run& run) const;
  bool is_empty(const Run& own) const { return (per_output_ ? own.n_outputs : own.n_tokens) == 0; }
  // Returns how many rows of an executable that is built for `n_rows` are in the slice.
  int n_rows(int n_rows) const { return tokens_.within(n_rows).size(); }

 private:
  Range tokens_;
  bool per_output_;
  size_t n_pairs_;  // counts the pairs of all rotations
};

}  // namespace troika::lanes
