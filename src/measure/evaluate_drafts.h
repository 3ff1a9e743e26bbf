// Measures what each kind of draft gives on each kind of task; tasks come with their context.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/answer.h"
#include "engine/chat.h"
#include "engine/drafting/drafting.h"
#include "engine/session.h"

namespace troika::measure {

struct ContextTask {
  std::string kind;
  std::string prompt;  // a text to go on with; or else `messages`
  // A conversation to be answered, with the model's template.
  std::vector<engine::Message> messages;
  std::string where = {};  // "tasks.jsonl:2", for errors
};

struct DraftSetting {
  std::string name;
  engine::DraftOptions draft;
};

// The score of one setting on one kind of tasks. Prefill times are those of whole prompts.
struct DraftScore {
  std::string setting;
  std::string kind;
  int n_tasks = 0;
  int n_different = 0;  // counts answers that differ from those without drafts: there must be none
  int64_t n_prompt = 0;
  int64_t n_tokens = 0;
  int64_t n_of_steps = 0;       // counts the tokens that steps found, as tokens_of_steps does
  double prefill_ms = 0.0;      // the time of all prefills, calibration included
  double calibration_ms = 0.0;  // the time spent on logits of the prompts' positions
  double decode_ms = 0.0;
  draft::Statistics statistics{};  // empty without drafts

  double ms_per_token() const;        // counts the steps alone
  double total_ms_per_token() const;  // counts prompts and steps
  double calibration_ms_per_prompt_token() const;
  double mean_draft() const;  // the mean number of nodes, over verifications that had a draft
};

// Counts the tokens that the steps of an answer found: all but the first, which the prompt's pass
// gives, and the end token, which the answer leaves out.
int64_t tokens_of_steps(const engine::Generated& answer);

struct DraftEvaluation {
  int most_tokens = 64;  // limits one answer
  const prepare::Options* engine_options = nullptr;
  std::string chat_template = {};  // takes the place of the model's own; empty: does not
};

// Returns the tokens of context that hold each task's prompt and its whole answer, or the most that
// a context has.
int context_for(const engine::Engine& engine, const std::vector<ContextTask>& tasks,
                const DraftEvaluation& how);

// Answers tasks greedily with each setting. Settings take turns on each task, so that all of them
// meet the same machine; each has a new drafter for each kind of tasks. The first setting is the
// plain one. Scores come by kind, with settings in order, then those of all kinds together. Throws
// Error before the first answer where the context holds a prompt or its answer not whole.
std::vector<DraftScore> evaluate_drafts(engine::Session& session,
                                        const std::vector<ContextTask>& tasks,
                                        const std::vector<DraftSetting>& settings,
                                        const DraftEvaluation& how,
                                        const ProgressFunction& progress);

// Returns the work of a calibration's products, if it covers everything, divided by that of the
// prompt's pass.
double head_share(const engine::Engine& engine);

}  // namespace troika::measure
