// How likely the tokens of an answer were, and what else could have stood in their place: before
// temperature, top-k and the like, and before a grammar forbids anything.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/sampler.h"

namespace troika::server {

struct Likelihood {
  engine::Token token;
  float logprob;
};

struct TokenLogprobs {
  Likelihood taken;
  std::vector<Likelihood> top;  // the most likely first
};

// Stands before the mask that an answer has, if any.
class LogprobRecorder : public engine::LogitMask {
 public:
  // `inner` may be null and must outlive this.
  LogprobRecorder(size_t n_prompt, int n_top, engine::LogitMask* inner)
      : n_prompt_(n_prompt), n_top_(n_top), inner_(inner) {}

  void apply(std::span<const engine::Token> history, std::span<float> logits) override;
  // The next token of the answer is this one.
  TokenLogprobs take(engine::Token token);

 private:
  size_t n_prompt_;
  int n_top_;
  engine::LogitMask* inner_;
  size_t n_taken_ = 0;
  std::unordered_map<size_t, std::vector<float>> logits_;  // by place in the answer
};

}  // namespace troika::server
