// Says how a virtual phone runs the attention of prompts as shadowAttn does: heads as tasks
// (S4-S7).
#pragma once

#include "plan/attention/attention_plan.h"

namespace troika::plan {

struct HeadPlan {
  int estimate_lane = 0, select_lane = 0;  // the exact part runs where the plan places attention
  HeadStage stage = HeadStage::kOrdered;
  int n_buckets = 9;  // counts pairs of scales, for each of which there are graphs (S4)
  int block = 1;      // counts positions that are chosen together, by as many queries
  double share = PromptAttention::kUsualShare;  // of the positions, which heads keep on average
  // All heads keep as many positions; else S3 gives each its own share.
  bool has_equal_shares = false;

  bool operator==(const HeadPlan&) const = default;

  static constexpr int kMostBlock = 1024;
};

}  // namespace troika::plan
