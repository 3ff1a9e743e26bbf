// Chooses among the plans that this machine allows, by its profile: how many lanes, and what runs
// where (H2, H11). It measures what is missing in the profile.
#pragma once

#include <string>
#include <vector>

#include "measure/profile_here.h"
#include "plan/plan.h"
#include "prepare/options.h"
#include "solve/cuts/solve_cuts.h"

namespace troika::tune {

// One way to use the cores.
struct PlanCandidate {
  std::string name;  // "2 threads", "lanes 0;1", "lanes 0;1, cut", "lanes 0;1, cut 512"
  plan::Plan plan;
  bool has_single_lane = true;
  std::vector<double> prompt_us;  // predicted, for each prompt length
  double step_us = 0.0;           // the predicted time of decoding a token
  double profile_load = 0.0;      // the load of the minute before its profile was taken
  bool is_bounded = false;        // says that not all placements or cuts were tried
  // What was found where cuts were searched for.
  std::vector<solve::CutNote> notes = {};
  std::vector<solve::LengthFound> length_notes = {};
};

struct ChooseRequest {
  prepare::Options
      options;  // model, context, activations, ...; lanes and threads too, else they are chosen
  // All candidates have what this plan's answers depend on: its precisions, what a calibration has
  // found for it, how prompts attend, how feed-forward blocks are computed, and where blocks are
  // cut. What the options say of the last three lies over it. Null: candidates are as the options
  // say.
  const plan::Plan* like = nullptr;
  std::vector<int> prompts = {32, 300, 1024};
  int n_steps = 64;  // counts tokens that are decoded behind each prompt
  // The time, for each candidate, to measure what a profile lacks. One op of each kind is measured
  // in any case.
  double budget_s = 8.0;
  bool use_cache = true;
  bool keeps_profile = true;  // false: what is measured now may be wrong at another time
};

struct PlanChoice {
  std::vector<PlanCandidate> candidates;
  int n_steps = 0;  // counts tokens that are decoded behind each prompt
  // The candidate that takes least time for prompts and steps together, as predicted, or as
  // measured by who has run them.
  size_t best = 0;
};

// Returns which candidate takes least time, where prompts take what is given: for each candidate,
// for each length. One that stands behind another must be clearly faster.
size_t fastest(const PlanChoice& choice, const std::vector<std::vector<double>>& prompt_us);

// Returns the parts of a plan that candidates like it do not have, and for which nothing else is
// found: what was measured on its lanes, or chosen for them.
std::vector<std::string> parts_not_kept(const plan::Plan& like);

// Returns what a profile of the plan's lanes says of dividing tensors and prompts: for each kind of
// subgraph and shape, on its home lane in the plan, the best cut beside the whole (H10). Throws
// Error where the profile lacks what that needs.
solve::CutReasons cut_reasons(const plan::Profile& profile, const plan::Plan& plan,
                              const model::Blueprint& blueprint, const weights::Store& weights,
                              const prepare::LaneChoice& lanes);

// Where tensors are divided, the candidate that is predicted to be fastest is followed by
// the next one, if their times are close to each other, so that who can run both may choose. Throws
// Error.
PlanChoice choose_plan(const ChooseRequest& request, const measure::StageFunction& stage);

}  // namespace troika::tune
