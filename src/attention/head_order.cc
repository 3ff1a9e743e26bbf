#include "attention/head_order.h"

#include <algorithm>
#include <limits>

namespace troika::attention {
namespace {

// Says when each of the three stages is free again.
struct Clocks {
  double npu = 0, topk = 0, qkv = 0;

  void take(const HeadTimes& head) {
    topk = std::max(npu, topk) + head.topk;
    qkv = std::max(qkv, topk) + head.qkv;
  }
};

// C/GPUPlan of the paper: appends the group's heads to `order` one by one, each time the head that
// ends soonest.
Clocks plan_heads(Clocks clocks, const FusedHeads& group, std::span<const HeadTimes> heads,
                  std::vector<int>* order) {
  std::vector<int> left = group.heads;
  while (!left.empty()) {
    auto best = left.begin();
    double least = std::numeric_limits<double>::infinity();
    for (auto head = left.begin(); head != left.end(); ++head) {
      Clocks then = clocks;
      then.take(heads[static_cast<size_t>(*head)]);
      if (then.qkv >= least) continue;
      least = then.qkv;
      best = head;
    }
    clocks.take(heads[static_cast<size_t>(*best)]);
    order->push_back(*best);
    left.erase(best);
  }
  return clocks;
}

}  // namespace

HeadOrder greedy_order(std::span<const FusedHeads> groups, std::span<const HeadTimes> heads) {
  HeadOrder order;
  Clocks clocks;
  std::vector<bool> is_taken(groups.size(), false);
  std::vector<int> tried, chosen;
  for (size_t step = 0; step < groups.size(); ++step) {
    size_t best = groups.size();
    Clocks after;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (is_taken[i]) continue;
      Clocks then = clocks;
      then.npu += groups[i].npu;
      tried.clear();
      then = plan_heads(then, groups[i], heads, &tried);
      if (best < groups.size() && then.qkv >= after.qkv) continue;
      best = i;
      after = then;
      chosen = tried;
    }
    is_taken[best] = true;
    clocks = after;
    order.groups.push_back(static_cast<int>(best));
    order.heads.insert(order.heads.end(), chosen.begin(), chosen.end());
  }
  order.time = clocks.qkv;
  return order;
}

HeadOrder planned_order(std::span<const FusedHeads> groups, std::span<const HeadTimes> heads) {
  HeadOrder order = greedy_order(groups, heads);
  const double unplanned = pipeline_time(groups, heads);
  if (order.time <= unplanned) return order;
  order = {{}, {}, unplanned};
  for (size_t i = 0; i < groups.size(); ++i) {
    order.groups.push_back(static_cast<int>(i));
    order.heads.insert(order.heads.end(), groups[i].heads.begin(), groups[i].heads.end());
  }
  return order;
}

double pipeline_time(std::span<const FusedHeads> groups, std::span<const HeadTimes> heads) {
  Clocks clocks;
  for (const FusedHeads& group : groups) {
    clocks.npu += group.npu;
    for (const int head : group.heads) clocks.take(heads[static_cast<size_t>(head)]);
  }
  return clocks.qkv;
}

}  // namespace troika::attention
