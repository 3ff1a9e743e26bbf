#include "prepare/lane_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_text.h"
#include "base/error.h"
#include "schedule/cut/plan_cuts.h"
#include "solve/lane_memory.h"
#include "solve/place.h"

namespace troika::prepare {
namespace {

// Times of which nothing is known but that fewer handovers are better.
class EvenTimes : public solve::TimeModel {
 public:
  double task_us(int, const lanes::Subgraph&, solve::TaskShape, int) const override { return 1.0; }
  double handover_us(int from, int to) const override { return from == to ? 0.0 : 1.0; }
};

bool is_limited(const plan::Plan& plan) {
  return std::any_of(plan.lanes.begin(), plan.lanes.end(), [](const plan::PlannedLane& lane) {
    return lane.memory_limit != plan::PlannedLane::kNoLimit;
  });
}

}  // namespace

void place_within_limits(const model::Blueprint& blueprint, const weights::Store& weights,
                         plan::Plan* plan) {
  if (!is_limited(*plan)) return;
  solve::PlaceRequest request;
  request.shapes = plan->body_shapes();
  request.has_rules_of_phases = !plan->has_one_class();
  request.splits = plan->splits;
  request.prefill = plan->prefill;
  request.activations = plan->activations;
  request.forced = plan->placements;
  request.forced.push_back({});  // lane 0 where no rule matches
  request.class_of = [plan](int lane, plan::Phase phase) {
    return schedule::class_of(*plan, lane, phase);
  };
  plan->placements = solve::place(blueprint, weights, plan->lanes, EvenTimes(), request).placements;
}

void check_lane_limits(const model::Blueprint& blueprint, const weights::Store& weights,
                       const plan::Plan& plan, const std::string& file) {
  if (!is_limited(plan)) return;
  const std::vector<size_t> held = solve::held_by_lanes(blueprint, weights, plan);
  for (size_t i = 0; i < held.size(); ++i) {
    const plan::PlannedLane& lane = plan.lanes[i];
    if (held[i] <= lane.memory_limit) continue;
    if (file.empty()) {
      throw Error(fmt::format(
          "Lane {} ({}) may hold {} of weights, and would hold {}, as a part of a product counts "
          "as the whole of it{}. Give it more ‹lane-memory›, or leave it out of ‹cut› and "
          "‹length›.",
          i, lane.kind, bytes_text(lane.memory_limit), bytes_text(held[i]),
          lane.is_device() ? ", and a device has copies of its own" : ""));
    }
    throw Error(fmt::format(
        "{}: 'lanes[{}].memory_limit' allows {} of weights, and the plan puts {} on that lane. "
        "Allow more there, name the lane in fewer of the plan's placements, cuts and lengths, or "
        "make the plan again with 'troika plan MODEL -o {}' and ‹lane-memory›.",
        file, i, bytes_text(lane.memory_limit), bytes_text(held[i]), file));
  }
}

}  // namespace troika::prepare
