// What drafts give on tasks that come with their context: each kind of draft on each kind of task.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/chat.h"
#include "engine/drafting/drafting.h"
#include "engine/session.h"

namespace troika::measure {

struct ContextTask {
  std::string kind;
  std::string prompt;                     // a text to go on with, or
  std::vector<engine::Message> messages;  // a conversation to be answered, by the model's template
};

struct DraftSetting {
  std::string name;
  engine::DraftOptions draft;
};

// The score of one setting on one kind of tasks. Prefill counts are of whole prompts.
struct DraftScore {
  std::string setting;
  std::string kind;
  int n_tasks = 0;
  int n_different = 0;  // answers that are not those without drafts: must be none
  int64_t n_prompt = 0;
  int64_t n_tokens = 0;
  double prefill_ms = 0.0;      // in all, calibration included
  double calibration_ms = 0.0;  // logits of the prompts' positions
  double decode_ms = 0.0;
  draft::Statistics statistics{};  // empty without drafts

  double ms_per_token() const;        // the steps
  double total_ms_per_token() const;  // with the prompts
  double calibration_ms_per_prompt_token() const;
  double mean_draft() const;  // nodes, of verifications that had a draft
};

struct DraftEvaluation {
  int most_tokens = 64;  // of an answer
  const prepare::Options* engine_options = nullptr;
};

// Greedy answers. Settings take turns on each task, so that all of them meet the same machine; each
// has a drafter for each kind of tasks. The first setting is the plain one. Scores come by kind,
// settings in order, then those of all kinds together.
std::vector<DraftScore> evaluate_drafts(engine::Session& session,
                                        const std::vector<ContextTask>& tasks,
                                        const std::vector<DraftSetting>& settings,
                                        const DraftEvaluation& how,
                                        const ProgressFunction& progress);

// Returns what the products of a calibration that covers everything are to those of the prompt's
// pass.
double head_share(const engine::Engine& engine);

}  // namespace troika::measure
