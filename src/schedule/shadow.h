// Outlier channels as tasks of their own (N4): the product of a matrix lane runs beside a small
// float product of the channels that exceed its scale, on another lane, and a third task adds the
// two.
#pragma once

#include <vector>

#include "lanes/subgraph.h"

namespace troika::schedule {

struct ShadowOptions {
  int lane = -1;  // that runs the small products and the sums; -1: there are none
  // Percent of the blocks whose outliers are ignored. Those in the middle go first: importance is
  // largest near the input and the output (N6, llm.npu §3.3).
  int prune_percent = 85;
};

// Whether the outliers of a block are kept.
bool keeps_outliers(int block, int n_blocks, int prune_percent);

// A piece of a subgraph as a task.
struct Piece {
  lanes::Subgraph subgraph;
  bool is_on_main_lane;        // else on that of the options
  std::vector<int> waits_for;  // earlier pieces; none: what the whole subgraph waits for
};

// Cuts a static subgraph with products: products that stand together, those of their outliers at
// the same time, the sum; what follows it up to the next products is row by row and stays with the
// sum. The last piece ends last. A subgraph without products is one piece.
std::vector<Piece> cut_for_shadow(const lanes::Subgraph& subgraph);

}  // namespace troika::schedule
