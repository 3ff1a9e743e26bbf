// How well a model predicts texts, and how often it answers tasks.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/session.h"

namespace troika::engine {

struct Perplexity {
  size_t n_tokens = 0;  // predicted ones
  double nll = 0.0;     // their mean negative log likelihood, in nats
  double perplexity = 0.0;
  double bits_per_char = 0.0;
};

// Each document is BOS (where the model has one) and as many of its tokens as the context holds.
Perplexity perplexity_of_documents(Session& session, const std::vector<std::string>& documents,
                                   const ProgressFunction& progress);
// One long text in windows of the context, each begun afresh.
Perplexity perplexity_of_text(Session& session, const std::string& text,
                              const ProgressFunction& progress);

struct Task {
  std::string prompt;
  std::string answer;
  std::string kind;
};

struct TaskScore {
  std::string kind;
  int n = 0;
  int n_right = 0;
};

// Greedy answers; right where the text up to the end of its line, without surrounding spaces, is
// the expected one. The first score is that of all kinds together.
std::vector<TaskScore> score_tasks(Session& session, const std::vector<Task>& tasks, bool use_chat,
                                   const ProgressFunction& progress);

}  // namespace troika::engine
