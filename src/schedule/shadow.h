// Outlier channels as tasks of their own (N4). The product of a matrix lane runs beside a small
// float product, on another lane, of the channels that exceed the first product's scale. A third
// task adds the two.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "schedule/cut/piece.h"

namespace troika::schedule {

struct ShadowOptions {
  int lane = -1;  // runs the small products and the sums; -1: there are none
  // The percentage of blocks whose outliers are ignored. Blocks in the middle are the first to be
  // ignored: importance is largest near the input and the output (N6, llm.npu §3.3).
  int prune_percent = 85;
};

// Says whether the outliers of a block are kept.
bool keeps_outliers(int block, int n_blocks, int prune_percent);

// How a subgraph is cut so that outliers run beside their products.
struct OutlierCut {
  int shadow_lane = 0;  // runs the small products and the sums
  int read_lane = -1;   // runs the reads
  // Says whether the outliers of a product are kept. Products that read one activation must all
  // have the same answer.
  std::function<bool(const model::Op&)> keeps = [](const model::Op&) { return true; };
  // Lanes that compute need this: a task of its own makes int8 rows and lists of outliers of an
  // activation, for the product and its shadow. Where tasks only take time, each counts its own
  // part of this work.
  bool has_extraction = false;
  // Says whether some columns of this product's weight must be read before its outliers can be
  // multiplied (N5). REQUIRES: has_extraction, and a lane that reads.
  std::function<bool(const model::Op&)> reads = [](const model::Op&) { return false; };
};

// Cuts a static subgraph with products, which stay on `lane`. Products of one activation that stand
// together become a task; beside it runs the task of their outliers; a third one makes the sum.
// What follows, up to the next such products, goes row by row and stays where the sum was made.
// Products that ignore their outliers stay as they are. The last piece ends last. A subgraph that
// keeps no outliers is one piece. Others call `lower`.
std::vector<Piece> lower_outliers(const lanes::Subgraph& subgraph, int lane, const OutlierCut& cut);

}  // namespace troika::schedule
