// Chooses how a model runs on this machine by measuring it: the precision of prompts, the method of
// int8 and which outliers are computed beside it, lanes, chunk and arrangements together, and the
// cost of drafts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "measure/profile_here.h"
#include "plan/plan_json.h"
#include "prepare/options.h"
#include "tune/attention/tune_attention.h"
#include "tune/proof/proof.h"

namespace troika::tune {

struct TuneRequest {
  // The model and what is asked for. Lanes, threads and the precision of prompts are chosen unless
  // they are asked for here.
  prepare::Options options;
  std::string text;       // one half calibrates, the other judges
  std::string text_name;  // for people
  std::vector<int> prompts = {128, 512};
  // The time that tuning may take, about: amounts of text and of operations follow from it.
  double seconds = 90.0;
  std::string folder;            // keeps what was measured until all is measured
  double most_loss = kMostLoss;  // the share of perplexity that int8 may lose
  // Says that threads and lanes stay the usual ones. While other programs take the cores, fewer
  // threads are faster, which is no longer so when those programs have ended.
  bool keeps_lanes = false;
  bool is_anew = false;  // leaves out what a run measured that was cut off
  // Gets the plan before the measurements are removed, so that nothing is lost where the plan
  // cannot be kept; none: nobody gets it.
  std::function<void(const plan::PlanFile& file)> keep;
  // The share of the positions that long prompts attend to, as the mean of all heads. The rule says
  // how each head gets its own share.
  double attention_share = plan::PromptAttention::kUsualShare;
  ShareRule share_rule = ShareRule::kWeight;
};

// A plan that was tried.
struct TriedPlan {
  std::string name;  // "q8", "int8 token", "int8 token, lanes 0;1"
  plan::Plan plan;
  // The times of prompts. A candidate that was timed twice also has the time of a step, as a prompt
  // of one token.
  std::vector<PromptTime> times;
  bool is_out = false;  // says that it was much slower than another one in its first runs
};

// The loss of an int8 method on the half of the text that nothing was calibrated with.
struct TriedMethod {
  plan::Int8Method method;
  int outlier_prune;
  PromptLoss loss;
};

struct Tuning {
  plan::PlanFile file;                // the plan that will be kept
  std::vector<TriedPlan> candidates;  // the usual plan first
  size_t chosen = 0;
  std::vector<TriedMethod> tried;
  std::string int8_reason;  // says why prompts are in int8, or why not
  AttentionTuning attention;
  // Counts measurements that a run made which was cut off.
  size_t n_found_earlier = 0;
  std::string begun;  // says when the run that was cut off began, or else this one

  const TriedPlan& usual() const { return candidates.front(); }
  const TriedPlan& best() const { return candidates[chosen]; }
};

// Throws Error. What was measured until then stays in the folder, and a call with the same request
// goes on with it, unless it measures anew. At the end it is removed.
Tuning tune(const TuneRequest& request, const measure::StageFunction& stage);

}  // namespace troika::tune
