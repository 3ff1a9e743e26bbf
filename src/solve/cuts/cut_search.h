// Searches how a subgraph is best divided between lanes, if at all (H3, H6, H7, H10).
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "solve/time_model.h"

namespace troika::solve {

// Says which cuts are tried, as HeteroLLM 4.3 prunes them.
struct CutRules {
  int n_lanes = 1;
  int row_granule = 256;  // a sixteenth of the rows where that is less
  int token_granule = 32;
  // Says whether two lanes may divide rows, or heads, of one op in executables of a phase: they
  // compute in one numerics class there.
  std::function<bool(int, int, plan::Phase)> may_share = [](int, int, plan::Phase) { return true; };
  // Says whether a lane may have parts of such a subgraph, in executables of a shape, that is at
  // home elsewhere.
  std::function<bool(std::string_view, plan::Shape, int)> may_take =
      [](std::string_view, plan::Shape, int) { return true; };
  // Says whether tokens of such a subgraph, in executables of a shape, may be divided between
  // lanes.
  std::function<bool(std::string_view, plan::Shape)> may_divide_tokens =
      [](std::string_view, plan::Shape) { return true; };
  // The least share of the time that a cut must gain. Less is not worth its trouble, because
  // predictions are uncertain.
  double least_gain = 0.0;
};

// Returns rules for the lanes of a plan, which must outlive them: those of one numerics class
// share.
CutRules cut_rules(const plan::Plan& plan);

// Is a CutRules::may_take that keeps attention of prompts whole: where its heads are tasks of their
// own, cuts do not divide them.
bool keeps_prompt_attention(std::string_view subgraph, plan::Shape shape, int lane);

struct CutFound {
  double whole_us = 0.0;  // the time on the home lane
  // The fastest cuts of those tried, better than the whole or not; empty: none could be tried.
  std::vector<plan::TensorCut> cuts;
  double us = 0.0;
  bool is_worthwhile = false;
  // Says that there were too many ways to divide it to try them all, so that a better one may be.
  bool is_bounded = false;

  double best_us() const { return is_worthwhile ? us : whole_us; }
};

// Bounds the ways that are tried for one subgraph in one shape, on all home lanes together. Up
// to four lanes have fewer. Each takes tens of microseconds.
inline constexpr int kMostCutsTried = 1 << 16;
// With more lanes than this, no three of them divide one op: there are too many threes to try.
inline constexpr int kMostLanesForThrees = 4;

// Searches cuts that hold for executables of this shape alone.
CutFound search_cuts(const TimeModel& times, const CutRules& rules, const lanes::Subgraph& subgraph,
                     plan::Shape shape, int home, int context);

// Returns the time of a subgraph in one piece, or in the pieces of its cuts.
double cut_us(const TimeModel& times, const lanes::Subgraph& subgraph,
              std::span<const plan::TensorCut> cuts, TaskShape shape, int home, int context);

}  // namespace troika::solve
