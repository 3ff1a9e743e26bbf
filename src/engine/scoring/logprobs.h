// How likely an answer's tokens were, and which tokens could have stood in their place: before
// temperature, top-k and the like and before a grammar forbids anything, or after all of these.
#pragma once

#include <cstddef>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/sampler.h"

namespace troika::engine {

struct Likelihood {
  Token token;
  float logprob;
};

struct TokenLogprobs {
  Likelihood taken;
  std::vector<Likelihood> top;  // the most likely first
};

// Which likelihoods are reported: those of the model, or those by which tokens are chosen.
enum class Likelihoods : uint8_t { kOfModel, kOfChoice };

// A mask that records logits. It stands before the answer's own mask, if there is one.
class LogprobRecorder : public LogitMask {
 public:
  // `inner` may be null, and must outlive the recorder.
  LogprobRecorder(size_t n_prompt, int n_top, LogitMask* inner,
                  Likelihoods which = Likelihoods::kOfModel)
      : n_prompt_(n_prompt), n_top_(n_top), inner_(inner), which_(which) {}

  bool is_ready(std::span<const Token> history) override {
    return inner_ == nullptr || inner_->is_ready(history);
  }
  void on_logits(std::span<const Token> history, std::span<const float> logits) override;
  void apply(std::span<const Token> history, std::span<float> logits) override;
  void on_choice(std::span<const Token> history, std::span<const Candidate> among) override;
  // Takes the next token of the answer and returns how likely it was.
  TokenLogprobs take(Token token);

 private:
  TokenLogprobs take_chosen(Token token);

  size_t n_prompt_;
  int n_top_;
  LogitMask* inner_;
  Likelihoods which_;
  size_t n_taken_ = 0;
  using Logits = std::unordered_map<size_t, std::vector<float>>;
  Logits logits_;                         // by place in the answer
  std::vector<Logits::node_type> spare_;  // have been taken, and their memory is used again
  std::vector<Token> order_;
  std::unordered_map<size_t, std::vector<Likelihood>> choices_;  // by place in the answer
};

// Returns the number by which the likelihoods of answers are compared (P9): the mean over the
// tokens, 0 where there is none. Where the model ended the answer, the end token does not count.
double mean_logprob(std::span<const TokenLogprobs> tokens);
// Returns the numbers of answers in descending order of their means; equal ones keep their order.
std::vector<size_t> best_first(std::span<const double> means);

}  // namespace troika::engine
