#include "solve/cuts/solve_cuts.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "schedule/graphs.h"
#include "solve/cuts/cut_times.h"

namespace troika::solve {
namespace {

// Returns the lanes on which subgraphs of a name run in executables of a shape. They are several
// where one has no memory for all blocks.
std::set<int> homes_of(const std::vector<lanes::Subgraph>& subgraphs, std::string_view name,
                       const plan::Plan& plan, plan::Shape shape) {
  std::set<int> homes;
  for (const lanes::Subgraph& subgraph : subgraphs) {
    if (name == subgraph.name) homes.insert(plan.lane_of(name, shape, subgraph.block()));
  }
  return homes;
}

bool names(const plan::Shares& shares, int lane) {
  return std::any_of(shares.begin(), shares.end(),
                     [&](const plan::LaneShare& share) { return share.lane == lane; });
}

// Returns the lanes that would hold more weights than they may (N9).
std::vector<int> full_lanes(const model::Blueprint& blueprint, const weights::Store& weights,
                            const plan::Plan& plan) {
  const std::vector<size_t> held = held_by_lanes(blueprint, weights, plan);
  std::vector<int> full;
  for (size_t lane = 0; lane < held.size(); ++lane) {
    if (held[lane] > plan.lanes[lane].memory_limit) full.push_back(static_cast<int>(lane));
  }
  return full;
}

// Returns what the passes of a choice lose together to the faster of two choices.
double loss_of(const CutChoice& choice, const CutChoice& other) {
  double sum = 0.0;
  for (size_t i = 0; i < choice.places.shapes.size(); ++i) {
    const double us = choice.places.shapes[i].us;
    sum += us / std::max(std::min(us, other.places.shapes[i].us), 1e-9);
  }
  return sum;
}

bool has_limits(const plan::Plan& plan) {
  return std::any_of(plan.lanes.begin(), plan.lanes.end(), [](const plan::PlannedLane& lane) {
    return lane.memory_limit != plan::PlannedLane::kNoLimit;
  });
}

class Solver {
 public:
  Solver(const model::Blueprint& blueprint, const weights::Store& weights, const plan::Plan& plan,
         const TimeModel& times, const CutRequest& request)
      : blueprint_(blueprint),
        weights_(weights),
        plan_(plan),
        times_(times),
        request_(request),
        rules_(request.cuts),
        subgraphs_(schedule::cut_into_subgraphs(blueprint, request.place.splits)),
        kinds_(kinds_of(subgraphs_, weights)),
        cut_times_(times, weights, kinds_, rules_) {
    plan_.splits = request.place.splits;
    rules_.may_take = [this](std::string_view subgraph, plan::Shape shape, int lane) {
      const std::string name(subgraph);
      return request_.cuts.may_take(subgraph, shape, lane) && forbidden_.count({name, lane}) == 0;
    };
  }

  // Returns places that are best with the cuts which hold there or, without `counts_cuts`, that
  // are best without any, and then get the cuts which hold there.
  CutChoice run(bool counts_cuts) {
    for (const auto& [subgraph, lane] : forbidden_) cut_times_.forget(subgraph);
    forbidden_.clear();
    const TimeModel& together = counts_cuts ? static_cast<const TimeModel&>(cut_times_) : times_;
    while (true) {
      CutChoice choice;
      plan_.cuts.clear();
      plan_.lengths.clear();
      choice.places = place(blueprint_, weights_, plan_.lanes, together, times_, request_.place);
      plan_.placements = choice.places.placements;
      take_cuts(&choice);
      plan_.cuts = choice.cuts;
      take_lengths(&choice);
      if (!fits_with_cuts(choice) || !fits_with_lengths()) continue;
      complete(&choice);
      return choice;
    }
  }

 private:
  static plan::Shape shape_for(const lanes::Subgraph& subgraph, plan::Shape shape) {
    return subgraph.is_head() ? plan::Shape() : shape;
  }

  int context_of(plan::Shape shape) const {
    return std::max(shape.n_rows, shape.n_rows == 1 ? request_.place.decode_context : 0);
  }

  // Takes the cuts by which places were chosen. A cut holds for all blocks of a name and divides
  // them between one home lane and others, so blocks that are on several lanes stay whole.
  void take_cuts(CutChoice* choice) const {
    for (const plan::Shape& shape : request_.place.shapes) {
      std::set<std::string_view> seen;
      for (const SubgraphKind& kind : kinds_) {
        const std::string_view name = kind.first.name;
        const bool is_again = kind.first.is_head() && shape != request_.place.shapes.front();
        if (!seen.insert(name).second || is_again) continue;
        const plan::Shape built = shape_for(kind.first, shape);
        const std::set<int> homes = homes_of(subgraphs_, name, plan_, built);
        if (homes.size() == 1) take_cut(name, built, *homes.begin(), context_of(shape), choice);
      }
    }
  }

  void take_cut(std::string_view name, plan::Shape built, int home, int context,
                CutChoice* choice) const {
    const CutFound& found = cut_times_.find(name, built, home, context);
    const lanes::Subgraph& subgraph = cut_times_.longest(name, built, home, context);
    choice->notes.push_back({subgraph.name, built, home, found});
    if (!found.is_worthwhile) return;
    choice->cuts.insert(choice->cuts.end(), found.cuts.begin(), found.cuts.end());
  }

  void take_lengths(CutChoice* choice) {
    LengthRules lengths = request_.lengths;
    for (const auto& [subgraph, lane] : forbidden_) {
      if (subgraph.empty()) lengths.left_out.push_back(lane);
    }
    choice->length_notes = find_lengths(times_, kinds_, plan_, lengths);
    for (const LengthFound& found : choice->length_notes) {
      if (found.is_worthwhile) choice->lengths.push_back({found.n_tokens, found.tokens});
    }
    plan_.lengths = choice->lengths;
  }

  // Adds what the settled plan means: the time of each pass, and that of lanes alone, which have no
  // help from others in cuts.
  void complete(CutChoice* choice) {
    for (const auto& [subgraph, lane] : forbidden_) {
      choice->without_room.emplace_back(subgraph, lane);
    }
    const PlacementChoice whole = place(blueprint_, weights_, plan_.lanes, times_, request_.place);
    for (size_t i = 0; i < whole.shapes.size(); ++i) {
      ShapeChoice& shape = choice->places.shapes[i];
      TROIKA_ASSERT(shape.shape == whole.shapes[i].shape);
      shape.us = pass_us(shape.shape);
      shape.single_lane_us = whole.shapes[i].single_lane_us;
      shape.is_bounded = shape.is_bounded || cut_times_.is_bounded(shape.shape);
    }
  }

  double pass_us(plan::Shape shape) const {
    std::map<std::string_view, size_t> n_homes;
    double us = 0.0;
    int before = -1;
    for (const lanes::Subgraph& subgraph : subgraphs_) {
      const plan::Shape built = shape_for(subgraph, shape);
      const int lane = plan_.lane_of(subgraph.name, built, subgraph.block());
      const auto [homes, is_new] = n_homes.try_emplace(subgraph.name);
      if (is_new) homes->second = homes_of(subgraphs_, subgraph.name, plan_, built).size();
      const TimeModel& model =
          homes->second > 1 ? times_ : static_cast<const TimeModel&>(cut_times_);
      us += model.task_us(lane, subgraph, built, context_of(shape));
      if (before >= 0) us += times_.handover_us(before, lane);
      before = lane;
    }
    return us;
  }

  // Finds lanes that cuts alone make too full. Such a lane gets no more parts of one subgraph: of
  // those that it has parts of, the one whose cuts save least. Returns false where there is such a
  // lane.
  bool fits_with_cuts(const CutChoice& choice) {
    plan::Plan without_lengths = plan_;
    without_lengths.lengths.clear();
    bool fits = true;
    for (const int lane : full_lanes(blueprint_, weights_, without_lengths)) {
      std::map<std::string, double> saved_us;
      for (const CutNote& note : choice.notes) {
        if (!note.found.is_worthwhile || note.home == lane) continue;
        const bool has_part = std::any_of(note.found.cuts.begin(), note.found.cuts.end(),
                                          [&](const plan::TensorCut& cut) {
                                            return names(cut.rows, lane) || names(cut.tokens, lane);
                                          });
        if (has_part) saved_us[note.subgraph] += note.found.whole_us - note.found.us;
      }
      if (saved_us.empty()) continue;
      const auto least =
          std::min_element(saved_us.begin(), saved_us.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      forbidden_.insert({least->first, lane});
      cut_times_.forget(least->first);
      fits = false;
    }
    return fits;
  }

  bool fits_with_lengths() {
    bool fits = true;
    for (const int lane : full_lanes(blueprint_, weights_, plan_)) {
      const bool has_part =
          std::any_of(plan_.lengths.begin(), plan_.lengths.end(),
                      [&](const plan::LengthCut& length) { return names(length.tokens, lane); });
      if (!has_part) continue;
      forbidden_.insert({"", lane});
      fits = false;
    }
    return fits;
  }

  const model::Blueprint& blueprint_;
  const weights::Store& weights_;
  plan::Plan plan_;  // the plan as it stands
  const TimeModel& times_;
  const CutRequest& request_;
  CutRules rules_;
  std::vector<lanes::Subgraph> subgraphs_;
  std::vector<SubgraphKind> kinds_;
  CutTimes cut_times_;
  // Holds subgraphs, with lanes that have no room for parts of them. An empty name stands for
  // lengths.
  std::set<std::pair<std::string, int>> forbidden_;
};

}  // namespace

CutReasons cut_reasons(const model::Blueprint& blueprint, const weights::Store& weights,
                       const plan::Plan& plan, const TimeModel& times, const CutRequest& request) {
  const std::vector<lanes::Subgraph> subgraphs =
      schedule::cut_into_subgraphs(blueprint, plan.splits);
  const std::vector<SubgraphKind> kinds = kinds_of(subgraphs, weights);
  const CutTimes cut_times(times, weights, kinds, request.cuts);
  CutReasons reasons;
  for (const plan::Shape& shape : request.place.shapes) {
    std::set<std::string_view> seen;
    for (const SubgraphKind& kind : kinds) {
      const std::string_view name = kind.first.name;
      if (kind.first.is_head() || !seen.insert(name).second) continue;
      const int context =
          std::max(shape.n_rows, shape.n_rows == 1 ? request.place.decode_context : 0);
      for (const int home : homes_of(subgraphs, name, plan, shape)) {
        reasons.notes.push_back(
            {kind.first.name, shape, home, cut_times.find(name, shape, home, context)});
      }
    }
  }
  plan::Plan without_lengths = plan;
  without_lengths.lengths.clear();
  reasons.length_notes = find_lengths(times, kinds, without_lengths, request.lengths);
  return reasons;
}

CutChoice solve_cuts(const model::Blueprint& blueprint, const weights::Store& weights,
                     const plan::Plan& plan, const TimeModel& times, const CutRequest& request) {
  Solver solver(blueprint, weights, plan, times, request);
  CutChoice choice = solver.run(/*counts_cuts=*/true);
  if (!has_limits(plan)) return choice;
  // What gains most in one shape takes memory from the shapes that are placed behind it, and from
  // parts of other cuts, so that all shapes together may lose.
  CutChoice modest = solver.run(/*counts_cuts=*/false);
  return loss_of(choice, modest) <= loss_of(modest, choice) ? choice : modest;
}

}  // namespace troika::solve
