#include "prepare/plan/one_lane.h"

#include <vector>

#include "base/system.h"

namespace troika::prepare {
namespace {

// Returns a lane with the cores and the threads of all lanes; devices are left out.
plan::PlannedLane lane_of_all(const std::vector<plan::PlannedLane>& lanes) {
  plan::PlannedLane all;
  all.n_threads = 0;
  bool is_anywhere = false;
  for (const plan::PlannedLane& lane : lanes) {
    if (lane.is_device()) continue;
    all.n_threads += lane.n_threads;
    is_anywhere = is_anywhere || lane.cores.empty();
    all.cores.insert(all.cores.end(), lane.cores.begin(), lane.cores.end());
  }
  if (is_anywhere) all.cores.clear();
  if (all.n_threads == 0) all.n_threads = usable_cores();
  return all;
}

bool is_of_cores(const std::vector<plan::PlannedLane>& lanes) {
  return lanes.size() == 1 && !lanes.front().is_device();
}

}  // namespace

void put_on_one_lane(plan::Plan* plan) {
  plan->cuts.clear();
  plan->lengths.clear();
  if (is_of_cores(plan->lanes)) return;
  plan->lanes = {lane_of_all(plan->lanes)};
  plan->placements.clear();
  plan->arrangements.clear();
  plan->attention.head_lanes.clear();
  plan->ffn.hot.lane = 0;
}

void put_on_one_lane(Options* options) {
  LaneChoice& lanes = options->lanes;
  lanes.cuts.clear();
  lanes.lengths.clear();
  lanes.range_cut = nullptr;
  if (!lanes.cores.empty() && !is_of_cores(lanes.cores)) {
    lanes.cores = {lane_of_all(lanes.cores)};
    lanes.placements.clear();
    lanes.limits.clear();
    lanes.caps.clear();
  }
}

}  // namespace troika::prepare
