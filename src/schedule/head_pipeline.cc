#include "schedule/head_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/error.h"

namespace troika::schedule {
namespace {

// Returns the heads that each launch estimates, in the order of the launches.
std::vector<std::vector<int>> launches_of(const BlockHeads& block, HeadStage stage) {
  std::vector<std::vector<int>> launches;
  const auto n_heads = static_cast<int>(block.buckets.size());
  if (stage < HeadStage::kFused) {
    for (int head = 0; head < n_heads; ++head) launches.push_back({head});
    return launches;
  }
  constexpr size_t kMost = *std::rbegin(kBuiltHeads);
  std::map<int, std::vector<int>> of_bucket;
  for (int head = 0; head < n_heads; ++head) {
    std::vector<int>& heads = of_bucket[block.buckets[static_cast<size_t>(head)]];
    heads.push_back(head);
    if (heads.size() == kMost) launches.push_back(std::exchange(heads, {}));
  }
  for (auto& [bucket, heads] : of_bucket) {
    if (!heads.empty()) launches.push_back(std::move(heads));
  }
  return launches;
}

}  // namespace

std::vector<Piece> lower_heads(const lanes::Subgraph& subgraph, int lane,
                               const HeadPipeline& pipeline) {
  using lanes::Role;
  TROIKA_ASSERT(subgraph.is_dynamic() && pipeline.is_on());
  const BlockHeads& block = pipeline.heads.at(static_cast<size_t>(subgraph.block()));
  TROIKA_ASSERT(block.shares.size() == block.buckets.size());
  std::vector<Piece> pieces;
  const auto add = [&](Role role, const char* name, int where, lanes::SparseHeads heads,
                       std::vector<int> waits_for) {
    lanes::Subgraph part = subgraph;
    part.role = role;
    part.name = name;
    part.sparse = std::move(heads);
    part.sparse.block = pipeline.block;
    pieces.push_back({std::move(part), where, std::move(waits_for)});
    return static_cast<int>(pieces.size()) - 1;
  };
  std::vector<int> first;  // the tasks for which the first estimate waits
  if (pipeline.stores_apart) first = {add(Role::kStore, "store", pipeline.estimate_lane, {}, {})};
  int last = -1;  // the exact part of the launch before
  for (const std::vector<int>& launch : launches_of(block, pipeline.stage)) {
    const auto n_heads = static_cast<int>(launch.size());
    const int n_built = *std::lower_bound(std::begin(kBuiltHeads), std::end(kBuiltHeads), n_heads);
    std::vector<int> before = first;
    if (pipeline.stage == HeadStage::kInTurn && last >= 0) before = {last};
    const int estimate =
        add(Role::kEstimate, "estimate", pipeline.estimate_lane, {launch, n_built}, before);
    for (const int head : launch) {
      const double share = block.shares[static_cast<size_t>(head)];
      const int select =
          add(Role::kSelect, "select", pipeline.select_lane, {{head}, 1, share}, {estimate});
      last = add(Role::kExact, "exact", lane, {{head}, 1, share}, {select});
    }
  }
  return pieces;
}

}  // namespace troika::schedule
