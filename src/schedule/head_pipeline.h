// Attention of a prompt's chunk as tasks of heads: estimate on the matrix lane, selection, exact
// attention (S4-S7, shadowAttn 3.3 and 3.4).
#pragma once

#include <vector>

#include "schedule/cut/piece.h"

namespace troika::schedule {

using plan::head_step_from_name;
using plan::head_step_name;
using plan::HeadStep;

// What differs between heads of queries in one block.
struct BlockHeads {
  std::vector<double> shares;  // of the positions that each keeps (S3)
  std::vector<int> buckets;    // of its scales, whose graph estimates it (S4)
};

struct HeadPipeline {
  bool is_on() const { return estimate_lane >= 0; }

  int estimate_lane = -1;  // -1: attention is one task
  int select_lane = 0;     // the exact part runs where attention does
  HeadStep step = HeadStep::kOrdered;
  int block = 1;  // positions that are chosen together, by so many queries
  // Keys and values are stored by a task of its own, before all others: of lanes that compute.
  bool stores_apart = false;
  std::vector<BlockHeads> heads;
};

// Heads for which a graph of each bucket is prebuilt: those that shadowAttn 3.4 measures. Fewer
// than a graph has are launched with it all the same; with more at once the cores would wait
// longer.
inline constexpr int kBuiltHeads[] = {1, 2, 4};

// Cuts the attention of a block, whose exact part stays on `lane`. Behind the task that stores keys
// and values, if there is one, each head has an estimate, alone
// or with others of its bucket, a selection that waits for it, and an exact part that waits for
// that. The pieces stand in the order of buckets and heads.
std::vector<Piece> lower_heads(const lanes::Subgraph& subgraph, int lane,
                               const HeadPipeline& pipeline);

}  // namespace troika::schedule
