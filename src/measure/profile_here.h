// The profile of this machine: it is measured on host lanes and kept between runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/engine.h"
#include "plan/plan.h"
#include "plan/profile.h"
#include "prepare/options.h"
#include "solve/profile/profile_storage.h"
#include "tensor/type.h"

namespace troika::measure {

struct ProfileRequest {
  std::vector<std::string> models;  // files, or names of known models
  prepare::LaneChoice lanes;        // of these only the lanes and their cores are used
  plan::Activations activations = plan::Activations::kQ8;
  plan::Prefill prefill = plan::Prefill::kBf16;
  tensor::Type kv_type = tensor::Type::kF16;
  std::string kernels;                      // the fastest kernels allowed; "": any
  tensor::Type type = tensor::Type::kQ4_0;  // the type in the grid, and of models without a file
  double budget_s = 35.0;                   // the time for measuring ops
  bool again = false;                       // ignores what is kept
  bool use_cache = true;                    // reads and writes the kept profile
  bool keeps = true;                        // with use_cache: writes it, too
  bool with_cores = true;                   // measures each core alone, which is for people
  bool with_storage = true;                 // measures the disk below the kept profile
  // Says what somebody can do where the disk cannot be measured.
  std::string storage_way_out = solve::StorageOptions().way_out;
};

struct ProfileResult {
  plan::Profile profile;
  std::string kept_path;     // empty: the profile was not kept, as one without any op is not
  std::string keep_problem;  // why the profile could not be kept; empty: it could, or need not be
  std::string problem;       // why the kept profile was not used, if it was not
  int n_measured = 0;        // counts ops that were measured now
};

// Returns the type of most weights of a file; none for the name of a known model, which has no
// file. Throws Error for a file that is no model.
std::optional<tensor::Type> main_type_of(const std::string& model);

// Is called with the name of each part of the work, and returns the function that reports its
// progress. Neither is empty.
using StageFunction = std::function<ProgressFunction(const std::string& name)>;

// Measures the profile, and keeps the rest where the disk cannot be measured. Throws Error, and
// UsageError for lanes and models that are not known.
ProfileResult profile_here(const ProfileRequest& request, const StageFunction& stage);

// Returns the kept profile of the lanes that an engine runs on. Empty where there is none, or where
// the one that is there cannot be used: `problem`, if not null, then says why.
std::optional<plan::Profile> kept_profile_of(engine::Engine& engine, std::string* problem);

// What a pass over a model should take, according to a profile.
struct PassPrediction {
  std::string model;
  int lane = 0;
  int n_tokens = 0;
  int context = 0;  // counts positions that the last token sees
  double us = 0.0;
};

struct PassPredictions {
  std::vector<PassPrediction> passes;
  std::vector<std::string> problems;  // sentences that say which passes are missing, and why
};

// Predicts passes for each file among the models and each lane: prompts of 128 and 512 tokens, and
// a step of decoding behind 128 tokens. Names of known models have no blueprint, lanes may refuse
// an op, and profiles may lack one: such passes are missing. Throws Error for files that are no
// models, and for a profile without ops.
PassPredictions predict_passes(const plan::Profile& profile, const std::vector<std::string>& models,
                               tensor::Type kv_type);

}  // namespace troika::measure
