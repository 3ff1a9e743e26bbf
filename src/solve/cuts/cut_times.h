// Gives the times of passes in which subgraphs are cut where that is faster.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "solve/cuts/cut_search.h"
#include "solve/cuts/kinds.h"

namespace troika::solve {

// Cuts of a name hold for all blocks, so the subgraph of that name that takes most time decides how
// all of them are cut. What was found once is not searched again.
class CutTimes : public TimeModel {
 public:
  // All arguments must outlive this.
  CutTimes(const TimeModel& times, const weights::Store& weights,
           const std::vector<SubgraphKind>& kinds, const CutRules& rules)
      : times_(times), weights_(weights), kinds_(kinds), rules_(rules) {}

  double task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape,
                 int context) const override;
  double handover_us(int from, int to) const override { return times_.handover_us(from, to); }

  // Returns the cuts of all subgraphs of a name whose home is one lane. The times are those of the
  // one that takes most time; the cuts are worthwhile where all together take less.
  const CutFound& find(std::string_view name, plan::Shape shape, int home, int context) const;
  // Returns the subgraph of a name whose blocks take most time together, whole on a lane.
  const lanes::Subgraph& longest(std::string_view name, plan::Shape shape, int home,
                                 int context) const;
  // Says whether some search for this shape was bounded.
  bool is_bounded(plan::Shape shape) const;
  // Forgets what was found for a name, because the rules have changed.
  void forget(std::string_view name);

 private:
  // Name, shape, home and positions.
  using Place = std::tuple<std::string, plan::Shape, int, int>;

  Place place_of(std::string_view name, plan::Shape shape, int home, int context) const;
  std::ptrdiff_t n_kinds(std::string_view name) const;
  double all_us(std::string_view name, const std::vector<plan::TensorCut>& cuts, plan::Shape shape,
                int home, int context) const;

  const TimeModel& times_;
  const weights::Store& weights_;
  const std::vector<SubgraphKind>& kinds_;
  const CutRules& rules_;
  mutable std::map<Place, CutFound> found_;
  mutable std::map<std::pair<Place, KindKey>, double> us_;
};

}  // namespace troika::solve
