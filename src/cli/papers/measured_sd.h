// Measures and shows what sd.npu gives on this machine, in the form of its Tables 3 and 4, on tasks
// that come with their context.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "measure/evaluate_drafts.h"
#include "plan/phones/published.h"

namespace troika::cli {

struct MeasuredSd {
  std::string model;
  std::string tasks;
  std::string draft_model;  // empty: none
  int n_tasks = 0;
  // The scores by kind, then those of all kinds together. Tokens of a pass are counted with a fixed
  // width; times are taken with as many rows as pay.
  std::vector<measure::DraftScore> counted;
  std::vector<measure::DraftScore> timed;
};

// Throws Error for a model or tasks that cannot be read, and where an answer with drafts differs
// from the one without. `draft_model` is a smaller model whose guesses are measured beside the
// others; it may be empty.
MeasuredSd measure_sd(const std::string& model, const std::string& tasks,
                      const std::string& draft_model);

// `published` is the row of what the paper's drafts gain over others.
void print_measured_sd(const MeasuredSd& measured, const plan::PublishedRow& published);
nlohmann::ordered_json measured_sd_json(const MeasuredSd& measured);

}  // namespace troika::cli
