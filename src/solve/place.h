// Which lane runs which kind of subgraph, for each shape: the assignment whose pass
// takes least time, tasks and handovers together (H2, H11, N10), within the memory of each lane
// (N9).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "schedule/graphs.h"
#include "solve/task_times.h"

namespace troika::solve {

struct LaneFacts {
  std::string name;
  size_t memory_limit_bytes = SIZE_MAX;  // of weights
};

// What was found for one shape.
struct ShapeChoice {
  plan::Shape shape;
  std::map<std::string, int> lanes;    // of each kind of subgraph
  double us = 0.0;                     // of the pass as chosen
  std::vector<double> single_lane_us;  // of each lane, if it ran everything
};

struct PlacementChoice {
  std::vector<plan::Placement> placements;
  std::vector<ShapeChoice> shapes;   // of the request, by their rows
  std::vector<size_t> weight_bytes;  // that each lane holds, in any shape
};

struct PlaceRequest {
  std::vector<plan::Shape> shapes;
  // Rules hold for one phase each. Otherwise they go by the number of tokens alone, as where both
  // phases compute alike.
  bool has_rules_of_phases = false;
  int decode_context = 512;  // positions that a single token sees
  // Rules that a user gave; they stand before all others.
  std::vector<plan::Placement> forced = {};
  bool is_cut_at_norms = false;
};

PlacementChoice place(const model::Blueprint& blueprint, const weights::Store& weights,
                      const std::vector<LaneFacts>& lanes, const TaskTimes& times,
                      const PlaceRequest& request);

}  // namespace troika::solve
