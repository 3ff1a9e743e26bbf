// In which order heads go through the pipeline of estimate, selection and exact attention (S7,
// Algorithm 1): the next group of heads that the matrix unit estimates together (S5), and within it
// the next head, are those after which the pipeline would end soonest.
#pragma once

#include <span>
#include <vector>

namespace troika::attention {

// What the stages of a head take behind the estimate.
struct HeadTimes {
  double topk = 0;
  double qkv = 0;
};
// Heads that are estimated in one launch.
struct FusedHeads {
  double npu = 0;          // of the launch
  std::vector<int> heads;  // indices into the list of HeadTimes
};

struct HeadOrder {
  std::vector<int> groups;  // in the order of their launches
  std::vector<int> heads;   // in the order of their selection and exact attention
  double time = 0;          // until the last head has ended
};

// Algorithm 1 as it is printed. Each head belongs to one group. To end each step soonest puts short
// heads first, which may leave the long ones alone at the end: it can be worse than no plan at all.
HeadOrder greedy_order(std::span<const FusedHeads> groups, std::span<const HeadTimes> heads);
// Returns that order, or the one in which they stand where that ends sooner.
HeadOrder planned_order(std::span<const FusedHeads> groups, std::span<const HeadTimes> heads);
// The time of the groups and of their heads in the order in which they stand.
double pipeline_time(std::span<const FusedHeads> groups, std::span<const HeadTimes> heads);

}  // namespace troika::attention
