// A piece of a subgraph, which becomes a task.
#pragma once

#include <vector>

#include "lanes/subgraph.h"

namespace troika::schedule {

struct Piece {
  lanes::Subgraph subgraph;  // the slice says which rows, columns and heads are the piece's
  int lane = 0;              // index into the machine's lanes
  // Earlier pieces; none: the piece waits for what the whole subgraph waits for.
  std::vector<int> waits_for;
  const weights::Store* weights = nullptr;  // null: those of the model
};

// Says whether an op is a product with one weight, which may be cut by its rows; products of
// experts are left whole.
inline bool is_product(const model::Op& op) { return op.kind == model::OpKind::kLinear; }

}  // namespace troika::schedule
