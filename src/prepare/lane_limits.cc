#include "prepare/lane_limits.h"

#include <algorithm>

#include "schedule/cut/plan_cuts.h"
#include "solve/place.h"

namespace troika::prepare {
namespace {

// Times of which nothing is known but that fewer handovers are better.
class EvenTimes : public solve::TimeModel {
 public:
  double task_us(int, const lanes::Subgraph&, solve::TaskShape, int) const override { return 1.0; }
  double handover_us(int from, int to) const override { return from == to ? 0.0 : 1.0; }
};

}  // namespace

void place_within_limits(const model::Blueprint& blueprint, const weights::Store& weights,
                         plan::Plan* plan) {
  const bool is_limited =
      std::any_of(plan->lanes.begin(), plan->lanes.end(), [](const plan::PlannedLane& lane) {
        return lane.memory_limit != plan::PlannedLane::kNoLimit;
      });
  if (!is_limited) return;
  solve::PlaceRequest request;
  request.shapes = plan->body_shapes();
  request.has_rules_of_phases = !plan->has_one_class();
  request.splits = plan->splits;
  request.forced = plan->placements;
  request.forced.push_back({});  // lane 0 where no rule matches
  request.class_of = [plan](int lane, plan::Phase phase) {
    return schedule::class_of(*plan, lane, phase);
  };
  plan->placements = solve::place(blueprint, weights, plan->lanes, EvenTimes(), request).placements;
}

}  // namespace troika::prepare
