// Replay: the tokens of an answer are given, whatever the model says (teacher forcing). Everything
// else is real, so drafts, widths and times can be measured with models of random weights.
#pragma once

#include <algorithm>
#include <limits>

#include "engine/sampler.h"

namespace troika::measure {

class ForcedText : public engine::LogitMask {
 public:
  // Forces the text behind `n_prompt` tokens to be `tokens`; behind these the model is free again.
  ForcedText(size_t n_prompt, std::vector<cache::Token> tokens)
      : n_prompt_(n_prompt), tokens_(std::move(tokens)) {}

  size_t n_tokens() const { return tokens_.size(); }

  void apply(std::span<const cache::Token> history, std::span<float> logits) override {
    const size_t at = history.size() - n_prompt_;
    if (history.size() < n_prompt_ || at >= tokens_.size()) return;
    std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
    logits[static_cast<size_t>(tokens_[at])] = 0.0f;
  }

 private:
  size_t n_prompt_;
  std::vector<cache::Token> tokens_;
};

}  // namespace troika::measure
