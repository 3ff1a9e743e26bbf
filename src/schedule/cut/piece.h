// A piece of a subgraph as a task.
#pragma once

#include <vector>

#include "lanes/subgraph.h"

namespace troika::schedule {

struct Piece {
  lanes::Subgraph subgraph;    // its slice says which rows, columns and heads are the piece's
  int lane = 0;                // index into the machine's lanes
  std::vector<int> waits_for;  // earlier pieces; none: what the whole subgraph waits for
};

// A product with one weight, which may be cut by its rows; those of experts are left whole.
inline bool is_product(const model::Op& op) { return op.kind == model::OpKind::kLinear; }

}  // namespace troika::schedule
