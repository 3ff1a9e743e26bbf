// The profile of this machine: made of host lanes, kept between runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/engine.h"
#include "plan/plan.h"
#include "plan/profile.h"
#include "prepare/options.h"
#include "tensor/type.h"

namespace troika::measure {

struct ProfileRequest {
  std::vector<std::string> models;  // files, or names of known models
  prepare::LaneChoice lanes;        // of it the cores
  plan::Activations activations = plan::Activations::kQ8;
  plan::Prefill prefill = plan::Prefill::kBf16;
  tensor::Type kv_type = tensor::Type::kF16;
  std::string kernels;                      // the fastest allowed, "" for any
  tensor::Type type = tensor::Type::kQ4_0;  // of the grid, and of models without a file
  double budget_s = 35.0;                   // for the ops
  bool again = false;                       // forget what is kept
  bool use_cache = true;                    // read and write the kept profile
  bool with_storage = true;
};

struct ProfileResult {
  plan::Profile profile;
  std::string kept_path;  // empty: not kept
  std::string problem;    // why the kept profile was not used, if that is so
  int n_measured = 0;     // ops measured now
};

// `stage` is called with the name of each part of the work and gives the function to report to.
using StageFunction = std::function<ProgressFunction(const std::string& name)>;

// Throws Error, and UsageError for lanes and models that are not known.
ProfileResult profile_here(const ProfileRequest& request, const StageFunction& stage);

// The kept profile of the lanes that an engine runs on; empty where there is none, and `problem`,
// if not null, says why one that is there is not used.
std::optional<plan::Profile> kept_profile_of(engine::Engine& engine, std::string* problem);

// What a pass over a model should take, from a profile.
struct PassPrediction {
  std::string model;
  int lane = 0;
  int n_tokens = 0;
  int context = 0;  // positions that the last token sees
  double us = 0.0;
};

// For each file among the models and each lane: prompts of 128 and 512 tokens, and a step of
// decoding behind 128. Names of known models have no blueprint and are left out.
std::vector<PassPrediction> predict_passes(const plan::Profile& profile,
                                           const std::vector<std::string>& models,
                                           tensor::Type kv_type);

}  // namespace troika::measure
