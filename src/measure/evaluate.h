// How well a model predicts texts, and how often it answers tasks.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/session.h"
#include "kernels/kernels.h"

namespace troika::measure {

struct Perplexity {
  size_t n_tokens = 0;  // counts predicted tokens
  double nll = 0.0;     // the mean negative log likelihood of these tokens, in nats
  double perplexity = 0.0;
  double bits_per_char = 0.0;
  // Documents that were longer than the context, and their tokens behind it, which nothing was
  // asked to predict.
  size_t n_cut_documents = 0;
  size_t n_cut_tokens = 0;
};

// What the model said at one position of a text, and what the token behind that position cost.
struct Prediction {
  std::span<const float> logits;
  double log_sum = 0.0;  // the logarithm of the sum of the logits' exponentials
  double nll = 0.0;      // the negative log likelihood of the token that follows
};
using PredictionSink = std::function<void(const Prediction& prediction)>;

// Cuts a text into windows of n_tokens tokens, each with BOS in front where the model has one.
std::vector<std::vector<cache::Token>> windows_of_text(const text::Tokenizer& tokenizer,
                                                       const std::string& text, size_t n_tokens);

// Returns the logarithm of the sum of the logits' exponentials; `room` is scratch. Throws Error
// where the logits are no numbers.
double log_sum_of(const kernels::Table& kernels, std::span<const float> logits,
                  std::vector<float>* room);

// Begins a new history, and hands over what is predicted behind the first n_given tokens.
void predict(engine::Session& session, std::span<const cache::Token> tokens, size_t n_given,
             const PredictionSink& sink);

// Measures perplexity over documents. Each one is BOS (where the model has it) and as many of its
// tokens as the context holds.
Perplexity perplexity_of_documents(engine::Session& session,
                                   const std::vector<std::string>& documents,
                                   const ProgressFunction& progress);
// Measures perplexity over one long text in windows of the context, each with a new history.
// `losses`, if not null, gets the negative log likelihood of each predicted token, in order.
Perplexity perplexity_of_text(engine::Session& session, const std::string& text,
                              const ProgressFunction& progress,
                              std::vector<double>* losses = nullptr);
// Measures perplexity as llama.cpp's llama-perplexity does: it counts the second half of whole
// windows.
Perplexity perplexity_of_second_halves(engine::Session& session, const std::string& text,
                                       const ProgressFunction& progress);

struct EvalTask {
  std::string prompt;
  std::string answer;
  std::string kind;
  std::string where = {};  // "tasks.jsonl:2", for errors
};

// The room that a task takes in the context.
struct TaskRoom {
  size_t n_prompt = 0;
  size_t n_answer = 0;  // counts the tokens of an answer that is not cut off
  std::string where;    // "tasks.jsonl:2"; may be empty
};

// Throws Error where the context holds some task's prompt or answer not whole, before others take
// their time. The sentence names the task that needs most, so that what it advises serves all.
void check_room(const engine::Session& session, const std::vector<TaskRoom>& tasks);

// Names the score of all kinds of tasks together.
inline constexpr const char* kAllKinds = "all";
// Throws Error for a kind that is called as all of them together are. `where` may be empty.
void check_kind(const std::string& kind, const std::string& where);

struct TaskScore {
  std::string kind;
  int n = 0;
  int n_right = 0;
};

struct TaskOptions {
  bool use_chat = false;           // each prompt becomes a user's message in the chat template
  std::string chat_template = {};  // takes the place of the model's own; empty: does not
  // Says that only the first line of the answer counts: for models without an end token.
  bool first_line_only = false;
  // Says that only the first word of the answer counts, without its punctuation: for the last word
  // of a text.
  bool first_word_only = false;
};

// Answers tasks greedily, up to the model's end token. An answer is right where its text, without
// white space around it, is the expected one. It may have several lines, unless less of it is
// judged. The first score is that of all kinds together; the scores of kinds follow, by name.
// Throws Error before the first answer where the context holds a prompt or its answer not whole.
std::vector<TaskScore> score_tasks(engine::Session& session, const std::vector<EvalTask>& tasks,
                                   const TaskOptions& how, const ProgressFunction& progress);

}  // namespace troika::measure
