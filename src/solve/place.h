// Which lane runs which kind of subgraph, for each shape: the assignment whose pass
// takes least time, tasks and handovers together (H2, H11, N10), within the memory of each lane
// (N9).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "solve/lane_memory.h"
#include "solve/task_times.h"

namespace troika::solve {

// What was found for one shape.
struct ShapeChoice {
  plan::Shape shape;
  std::map<std::string, int> lanes;    // of each kind of subgraph, where its memory is enough
  double us = 0.0;                     // of the pass as it will run
  std::vector<double> single_lane_us;  // the same with as much as fits on one lane, for each lane
};

struct PlacementChoice {
  std::vector<plan::Placement> placements;
  std::vector<ShapeChoice> shapes;  // of the request, by their rows
};

struct PlaceRequest {
  std::vector<plan::Shape> shapes;
  // Rules hold for one phase each. Otherwise they go by the number of tokens alone, as where both
  // phases compute alike.
  bool has_rules_of_phases = false;
  int decode_context = 512;  // positions that a single token sees
  // Rules that a user gave. They stand before what takes least time, and behind the limits.
  std::vector<plan::Placement> forced = {};
  plan::Splits splits = {};
};

// Throws Error where the lanes together have no memory for all weights.
PlacementChoice place(const model::Blueprint& blueprint, const weights::Store& weights,
                      const std::vector<plan::HostLane>& lanes, const TaskTimes& times,
                      const PlaceRequest& request);

}  // namespace troika::solve
