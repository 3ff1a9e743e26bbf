// How a subgraph is best divided between lanes, if at all (H3, H6, H7, H10).
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "plan/cuts/cuts.h"
#include "solve/cuts/kinds.h"
#include "solve/task_times.h"

namespace troika::solve {

// Which cuts are tried, as HeteroLLM 4.3 prunes them.
struct CutRules {
  int n_lanes = 1;
  int row_granule = 256;  // a sixteenth of the rows where that is less
  int token_granule = 32;
  // Whether two lanes may have rows, or heads, of one op: they compute in one numerics class.
  std::function<bool(int, int)> may_share = [](int, int) { return true; };
  // Whether a lane may have parts of such a subgraph that is at home elsewhere.
  std::function<bool(std::string_view, int)> may_take = [](std::string_view, int) { return true; };
  // A cut that gains a smaller share of the time is not worth its trouble: predictions are that
  // uncertain.
  double least_gain = 0.0;
};

struct CutFound {
  double whole_us = 0.0;  // on its home lane
  // The fastest of those tried, better than the whole or not; no cuts: none could be tried.
  std::vector<plan::TensorCut> cuts;
  double us = 0.0;
  bool is_worthwhile = false;

  double best_us() const { return is_worthwhile ? us : whole_us; }
};

class CutSearch {
 public:
  // The times and the weights must outlive it.
  CutSearch(const TaskTimes& times, const weights::Store& weights, const CutRules& rules)
      : times_(times), weights_(weights), rules_(rules) {}

  // The cuts hold for executables of this shape alone. What was found once is not searched again.
  const CutFound& find(const lanes::Subgraph& subgraph, plan::Shape shape, int home, int context);

 private:
  TaskTimes const& times_;
  const weights::Store& weights_;
  CutRules rules_;
  std::map<std::tuple<std::string, KindKey, plan::Shape, int, int>, CutFound> found_;
};

// A subgraph in one piece, or in those of its cuts.
double cut_us(const TaskTimes& times, const lanes::Subgraph& subgraph,
              std::span<const plan::TensorCut> cuts, plan::Shape shape, int home, int context);

}  // namespace troika::solve
