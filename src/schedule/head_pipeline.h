// Attention of a prompt's chunk as tasks of heads: estimate on the matrix lane, selection, exact
// attention (S4-S7, shadowAttn 3.3 and 3.4).
#pragma once

#include <vector>

#include "schedule/cut/piece.h"

namespace troika::schedule {

using plan::head_stage_from_name;
using plan::head_stage_name;
using plan::HeadStage;

// How the heads of queries in one block differ.
struct BlockHeads {
  std::vector<double> shares;  // by head: the share of the positions that it keeps (S3)
  std::vector<int> buckets;    // by head: the bucket of its scales, whose graph estimates it (S4)
};

struct HeadPipeline {
  bool is_on() const { return estimate_lane >= 0; }

  int estimate_lane = -1;  // -1: attention is one task
  int select_lane = 0;     // the exact part runs where the plan places attention
  HeadStage stage = HeadStage::kOrdered;
  int block = 1;  // counts consecutive positions that are chosen together, by as many queries
  // If set, a task of its own stores keys and values before all others: lanes that compute need
  // that.
  bool stores_apart = false;
  std::vector<BlockHeads> heads;
};

// Counts the heads of the graphs that are prebuilt for each bucket, as shadowAttn 3.4 measures
// them. Fewer heads than a graph has are launched with it all the same. With more heads at once the
// cores would wait longer.
inline constexpr int kBuiltHeads[] = {1, 2, 4};

// Cuts the attention of a block, whose exact part stays on `lane`. Each head has an estimate, alone
// or with other heads of its bucket; a selection, which waits for the estimate; and an exact part,
// which waits for the selection. All of them wait for the task that stores keys and values, if
// there is one. The pieces stand in the order of buckets and heads.
std::vector<Piece> lower_heads(const lanes::Subgraph& subgraph, int lane,
                               const HeadPipeline& pipeline);

}  // namespace troika::schedule
