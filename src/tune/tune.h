// Chooses how a model runs on this machine by measuring it: the precision of prompts, of int8 the
// method and which outliers stay beside it, lanes, chunk and layouts together, and what drafts
// cost.
#pragma once

#include <string>
#include <vector>

#include "measure/profile_here.h"
#include "plan/plan_json.h"
#include "prepare/options.h"
#include "tune/proof/proof.h"
#include "tune/tune_attention.h"

namespace troika::tune {

struct TuneRequest {
  // Model and what is asked for; lanes, threads and the precision of prompts (its name in place of
  // "auto") are asked for or chosen.
  prepare::Options options;
  std::string text;       // one half to calibrate with, the other to judge by
  std::string text_name;  // for people
  std::vector<int> prompts = {128, 512};
  double seconds = 90.0;  // that it may take, about; amounts of text and of operations follow
  std::string folder;     // where what was measured is kept until all is
  double most_loss = kMostLoss;  // of perplexity that int8 may cost
  // Threads and lanes stay the usual ones. Where other programs take the cores, fewer threads are
  // faster, which is no longer so when those have ended.
  bool keeps_lanes = false;
  // Long prompts attend to this share of the positions, as the mean of all heads; the rule says how
  // each gets its own.
  double attention_share = plan::PromptAttention::kUsualShare;
  ShareRule share_rule = ShareRule::kWeight;
};

// A plan that was tried.
struct Candidate {
  std::string name;  // "q8", "int8 token", "int8 token, lanes 0;1"
  plan::Plan plan;
  // The times of prompts, and of a step as the prompt of one token, where the candidate was timed
  // twice.
  std::vector<PromptTime> times;
  bool is_out = false;  // much slower than another one at first
};

// A method of int8 on the half of the text that nothing was calibrated with.
struct TriedMethod {
  plan::Int8Method method;
  int outlier_prune;
  PromptLoss loss;
};

struct Tuning {
  plan::PlanFile file;                // to be kept
  std::vector<Candidate> candidates;  // the usual plan first
  size_t chosen = 0;
  std::vector<TriedMethod> tried;
  std::string int8_reason;  // why prompts are in int8, or why not
  AttentionTuning attention;
  size_t n_found_earlier = 0;  // measurements of a run that was cut off
  std::string begun;           // when that run, or this one, began

  const Candidate& usual() const { return candidates.front(); }
  const Candidate& best() const { return candidates[chosen]; }
};

// Throws Error. What was measured until then stays in the folder, and the same request goes on with
// it; behind the end nothing of it is left.
Tuning tune(const TuneRequest& request, const measure::StageFunction& stage);

}  // namespace troika::tune
