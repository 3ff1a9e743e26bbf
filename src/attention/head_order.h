// The order in which heads go through the pipeline of estimate, selection and exact attention (S7,
// Algorithm 1). The matrix unit estimates a group of heads together (S5). The next group, and
// within it the next head, is always the one after which the pipeline would end soonest.
#pragma once

#include <span>
#include <vector>

namespace troika::attention {

// Says how long the stages behind the estimate take for a head, in any unit: orders depend on
// ratios alone.
struct HeadTimes {
  double topk = 0;
  double qkv = 0;
};
// Heads that are estimated in one launch.
struct FusedHeads {
  double npu = 0;          // how long the launch takes
  std::vector<int> heads;  // indices into the list of HeadTimes
};

struct HeadOrder {
  std::vector<int> groups;  // in the order of their launches
  std::vector<int> heads;   // in the order of their selection and exact attention
  double time = 0;          // the time at which the last head ends
};

// Returns the order by Algorithm 1 as it is printed. Each head belongs to one group. Ending each
// step soonest puts short heads first, which may leave the long ones alone at the end: so it can be
// worse than no plan at all.
HeadOrder greedy_order(std::span<const FusedHeads> groups, std::span<const HeadTimes> heads);
// Returns the order of greedy_order, or the given order where that ends sooner.
HeadOrder planned_order(std::span<const FusedHeads> groups, std::span<const HeadTimes> heads);
// Returns the time of the groups and of their heads in the given order.
double pipeline_time(std::span<const FusedHeads> groups, std::span<const HeadTimes> heads);

}  // namespace troika::attention
