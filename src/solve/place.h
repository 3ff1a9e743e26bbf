// Decides which lane runs which kind of subgraph, for each shape: the assignment whose pass takes
// least time, tasks and handovers together (H2, H11, N10), within the memory of each lane (N9).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "solve/lane_memory.h"
#include "solve/time_model.h"

namespace troika::solve {

// What was found for one shape.
struct ShapeChoice {
  plan::Shape shape;
  // Has the lane of each kind of subgraph, as far as the lane's memory goes.
  std::map<std::string, int> lanes;
  double us = 0.0;  // the time of the pass as it will run
  // Says that there were too many ways to divide the kinds among lanes, or an op between them, to
  // try them all, so that a better one may be.
  bool is_bounded = false;
  // Has for each lane the time of the pass with as much as fits on that lane, and nothing cut.
  std::vector<double> single_lane_us;
};

struct PlacementChoice {
  std::vector<plan::Placement> placements;
  // Has a choice for each shape of the request, in the order of their rows.
  std::vector<ShapeChoice> shapes;
};

struct PlaceRequest {
  std::vector<plan::Shape> shapes;
  // Says that each rule holds for one phase. Otherwise rules go by the number of tokens alone, as
  // where both phases compute alike.
  bool has_rules_of_phases = false;
  int decode_context = 512;  // counts positions that a single token sees
  // The rules that a user gave. They count before what takes least time, and after the limits.
  std::vector<plan::Placement> forced = {};
  plan::Splits splits = {};
  // Say which copies of weights devices hold.
  plan::Prefill prefill = plan::Prefill::kSame;
  plan::Activations activations = plan::Activations::kQ8;
  // Returns the numerics class of a lane in executables of a phase. In all shapes of one phase, or
  // in all shapes without has_rules_of_phases, a subgraph gets lanes of one class, unless rules of
  // the user give it others. Null: all lanes compute alike.
  std::function<std::string(int lane, plan::Phase)> class_of = nullptr;
};

// Throws Error where the lanes together have no memory for all weights.
PlacementChoice place(const model::Blueprint& blueprint, const weights::Store& weights,
                      const std::vector<plan::PlannedLane>& lanes, const TimeModel& times,
                      const PlaceRequest& request);

// Places by `times` the kinds of which all subgraphs are on one lane, and by `apart_times` those
// that limits of memory or rules have put on several, as where cuts hold for kinds on one lane
// alone.
PlacementChoice place(const model::Blueprint& blueprint, const weights::Store& weights,
                      const std::vector<plan::PlannedLane>& lanes, const TimeModel& times,
                      const TimeModel& apart_times, const PlaceRequest& request);

}  // namespace troika::solve
