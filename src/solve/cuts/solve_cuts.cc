#include "solve/cuts/solve_cuts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "schedule/graphs.h"

namespace troika::solve {
namespace {

// Returns the lane on which all subgraphs of a name run in executables of a shape. Returns nothing
// where they are on different lanes because of memory, since a cut holds for all of them.
std::optional<int> home_of(const std::vector<lanes::Subgraph>& subgraphs, std::string_view name,
                           const plan::Plan& plan, plan::Shape shape) {
  std::optional<int> home;
  for (const lanes::Subgraph& subgraph : subgraphs) {
    if (name != subgraph.name) continue;
    const int lane = plan.lane_of(name, shape, subgraph.block());
    if (home && *home != lane) return std::nullopt;
    home = lane;
  }
  return home;
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
        kinds_(kinds_of(subgraphs_, weights)) {
    plan_.splits = request.place.splits;
  }

  CutChoice run() {
    rules_.may_take = [this](std::string_view subgraph, int lane) {
      return forbidden_.count({std::string(subgraph), lane}) == 0;
    };
    while (true) {
      CutChoice choice = solve_once();
      const bool is_settled = fits_with_cuts(choice) && fits_with_lengths();
      if (!is_settled) continue;
      for (const auto& [subgraph, lane] : forbidden_) {
        choice.without_room.emplace_back(subgraph, lane);
      }
      return choice;
    }
  }

 private:
  CutChoice solve_once() {
    CutChoice choice;
    CutSearch search(times_, weights_, rules_);
    plan_.cuts.clear();
    plan_.lengths.clear();
    choice.places =
        place(blueprint_, weights_, plan_.lanes, CutTimes(times_, search), request_.place);
    plan_.placements = choice.places.placements;
    find_cuts(&search, &choice);
    plan_.cuts = choice.cuts;
    LengthRules lengths = request_.lengths;
    for (const auto& [subgraph, lane] : forbidden_) {
      if (subgraph.empty()) lengths.left_out.push_back(lane);
    }
    choice.length_notes = find_lengths(times_, kinds_, plan_, lengths);
    for (const LengthFound& found : choice.length_notes) {
      if (found.is_worthwhile) choice.lengths.push_back({found.n_tokens, found.tokens});
    }
    plan_.lengths = choice.lengths;
    return choice;
  }

  // Returns the kind of a name whose blocks take most time together. Kinds of one name differ in
  // weights or windows, and a cut holds for all of them.
  const lanes::Subgraph& longest_kind(std::string_view name, int home, plan::Shape built,
                                      int context) const {
    const SubgraphKind* longest = nullptr;
    double most_us = -1.0;
    for (const SubgraphKind& kind : kinds_) {
      if (kind.first.name != name) continue;
      const double us = kind.n * times_.task_us(home, kind.first, built, context);
      if (us <= most_us) continue;
      most_us = us;
      longest = &kind;
    }
    TROIKA_ASSERT(longest != nullptr);
    return longest->first;
  }

  void find_cuts(CutSearch* search, CutChoice* choice) const {
    for (const plan::Shape& shape : request_.place.shapes) {
      std::vector<std::string_view> seen;
      for (const SubgraphKind& kind : kinds_) {
        const std::string_view name = kind.first.name;
        if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
        seen.push_back(name);
        const plan::Shape built = kind.first.is_head() ? plan::Shape() : shape;
        const std::optional<int> home = home_of(subgraphs_, name, plan_, built);
        const bool is_again = kind.first.is_head() && shape != request_.place.shapes.front();
        if (!home || is_again) continue;
        const int context =
            std::max(built.n_rows, shape.n_rows == 1 ? request_.place.decode_context : 0);
        const lanes::Subgraph& subgraph = longest_kind(name, *home, built, context);
        const CutFound& found = search->find(subgraph, built, *home, context);
        choice->notes.push_back({subgraph.name, built, *home, found});
        if (!found.is_worthwhile) continue;
        choice->cuts.insert(choice->cuts.end(), found.cuts.begin(), found.cuts.end());
      }
    }
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
  // Holds subgraphs, with lanes that have no room for parts of them. An empty name stands for
  // lengths.
  std::set<std::pair<std::string, int>> forbidden_;
};

}  // namespace

double CutTimes::task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape,
                         int context) const {
  return search_.find(subgraph, shape.built, lane, context).best_us();
}

CutChoice solve_cuts(const model::Blueprint& blueprint, const weights::Store& weights,
                     const plan::Plan& plan, const TimeModel& times, const CutRequest& request) {
  return Solver(blueprint, weights, plan, times, request).run();
}

}  // namespace troika::solve
