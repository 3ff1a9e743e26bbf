// Outlier channels as tasks of their own (N4): the product of a matrix lane runs beside a small
// float product of the channels that exceed its scale, on another lane, and a third task adds the
// two.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "schedule/cut/piece.h"

namespace troika::schedule {

struct ShadowOptions {
  int lane = -1;  // that runs the small products and the sums; -1: there are none
  // Percent of the blocks whose outliers are ignored. Those in the middle go first: importance is
  // largest near the input and the output (N6, llm.npu §3.3).
  int prune_percent = 85;
};

// Whether the outliers of a block are kept.
bool keeps_outliers(int block, int n_blocks, int prune_percent);

// How a subgraph is cut so that outliers run beside their products.
struct OutlierCut {
  int shadow_lane = 0;  // of the small products and the sums
  int read_lane = -1;   // of the reads
  // Whether the outliers of a product are kept; of products that read one activation all or none.
  std::function<bool(const model::Op&)> keeps = [](const model::Op&) { return true; };
  // Lanes that compute: activations become int8 rows and lists of outliers in a task of its own,
  // for the product and its shadow both. Where tasks only take time, each counts its part of that.
  bool has_extraction = false;
  // Some columns of this product's weight must be read before its outliers can be multiplied (N5).
  // REQUIRES: has_extraction, and a lane that reads.
  std::function<bool(const model::Op&)> reads = [](const model::Op&) { return false; };
};

// Cuts a static subgraph with products, which stay on `lane`: products of one activation that stand
// together, those of their outliers at the same time, the sum; what follows up to the next of them
// is row by row and stays where the sum was made. Products that ignore their outliers stay as they
// are. The last piece ends last. A subgraph that keeps no outliers is one piece. `lower` is the
// door to this.
std::vector<Piece> lower_outliers(const lanes::Subgraph& subgraph, int lane, const OutlierCut& cut);

}  // namespace troika::schedule
