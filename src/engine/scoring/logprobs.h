// How likely the tokens of an answer were, and what else could have stood in their place: before
// temperature, top-k and the like and before a grammar forbids anything, or behind all of these.
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

// What likelihoods are told of: the model's own, or those by which tokens are chosen.
enum class Likelihoods : uint8_t { kOfModel, kOfChoice };

// Stands before the mask that an answer has, if any.
class LogprobRecorder : public LogitMask {
 public:
  // `inner` may be null and must outlive this.
  LogprobRecorder(size_t n_prompt, int n_top, LogitMask* inner,
                  Likelihoods which = Likelihoods::kOfModel)
      : n_prompt_(n_prompt), n_top_(n_top), inner_(inner), which_(which) {}

  bool is_ready(std::span<const Token> history) override {
    return inner_ == nullptr || inner_->is_ready(history);
  }
  void apply(std::span<const Token> history, std::span<float> logits) override;
  void on_choice(std::span<const Token> history, std::span<const Candidate> among) override;
  // The next token of the answer is this one.
  TokenLogprobs take(Token token);

 private:
  TokenLogprobs take_chosen(Token token);

  size_t n_prompt_;
  int n_top_;
  LogitMask* inner_;
  Likelihoods which_;
  size_t n_taken_ = 0;
  std::unordered_map<size_t, std::vector<float>> logits_;        // by place in the answer
  std::unordered_map<size_t, std::vector<Likelihood>> choices_;  // the same
};

// By how likely an answer is compared with others (P9): the mean over its tokens, 0 where there is
// none. Of an answer that the model ended, the token that ends it does not count.
double mean_logprob(std::span<const TokenLogprobs> tokens);
// The numbers of answers, the one whose mean is largest first; equal ones in their order.
std::vector<size_t> best_first(std::span<const double> means);

}  // namespace troika::engine
