// Forces an answer to a given text, whatever the model says, so that tests know what comes.
#pragma once

#include <algorithm>
#include <limits>

#include "engine/sampler.h"

namespace troika::server {

class GivenText : public engine::LogitMask {
 public:
  // The answer ends with the text, where the model has tokens that end one.
  GivenText(size_t n_prompt, const std::vector<engine::Token>& text,
            const std::vector<engine::Token>& ends)
      : n_prompt_(n_prompt), text_(text), ends_(ends) {}

  void apply(std::span<const engine::Token> history, std::span<float> logits) override {
    const size_t at = history.size() - n_prompt_;
    if (at >= text_.size() && ends_.empty()) return;
    std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
    const engine::Token next = at < text_.size() ? text_[at] : ends_.front();
    logits[static_cast<size_t>(next)] = 0.0f;
  }

 private:
  size_t n_prompt_;
  const std::vector<engine::Token>& text_;  // the server owns it, and it outlives the answer
  const std::vector<engine::Token>& ends_;
};

}  // namespace troika::server
