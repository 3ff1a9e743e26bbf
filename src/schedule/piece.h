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

}  // namespace troika::schedule
