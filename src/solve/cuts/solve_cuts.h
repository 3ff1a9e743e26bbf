// Finds the plan of least time by what lanes take (H2, H10), for each shape: which lane is home to
// which kind of subgraph, and how products and prompts are divided between lanes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "solve/cuts/cut_search.h"
#include "solve/cuts/length_search.h"
#include "solve/place.h"

namespace troika::solve {

// Tells people what was found about one kind of subgraph in one shape.
struct CutNote {
  const char* subgraph = "";
  plan::Shape shape;
  int home = 0;
  CutFound found;
};

struct CutChoice {
  PlacementChoice places;
  std::vector<plan::TensorCut> cuts;
  std::vector<plan::LengthCut> lengths;
  std::vector<CutNote> notes;
  std::vector<LengthFound> length_notes;
  // The subgraphs of which a lane has no room for a part, with the lane. An empty name stands for
  // lengths.
  std::vector<std::pair<std::string, int>> without_room;
};

struct CutRequest {
  PlaceRequest place;
  CutRules cuts;
  LengthRules lengths;  // without lengths, prompts are not divided
};

// What times say of a plan as it is: of each kind of subgraph the best cut beside the whole, on its
// home lane, and of each length that has no executable of its own.
struct CutReasons {
  std::vector<CutNote> notes;
  std::vector<LengthFound> length_notes;
};
CutReasons cut_reasons(const model::Blueprint& blueprint, const weights::Store& weights,
                       const plan::Plan& plan, const TimeModel& times, const CutRequest& request);

// `plan` has lanes and shapes. Throws Error as `place` does.
CutChoice solve_cuts(const model::Blueprint& blueprint, const weights::Store& weights,
                     const plan::Plan& plan, const TimeModel& times, const CutRequest& request);

}  // namespace troika::solve
