// Drafts of which as many are right as a paper says (D6): chains of guesses, so that verifying them
// takes what it takes, on a phone that computes no values.
#pragma once

#include <functional>

#include "draft/source.h"

namespace troika::papers {

class ScriptedDrafts : public draft::Source {
 public:
  // `accepted`: tokens of a verification on average, the one behind the draft counted, of drafts of
  // so many guesses. What a right guess is: the token that the sampler chooses of equal logits.
  // `drafts` is told of each draft before it is made: how many guesses it has.
  // REQUIRES: 1 <= accepted <= n_drafts + 1.
  ScriptedDrafts(int n_drafts, double accepted, draft::Token right,
                 std::function<void(int n_drafts)> drafts);

  const char* name() const override { return "scripted"; }
  void reset() override {}
  void observe(std::span<const draft::Token>) override {}
  void propose(int most, draft::Tree* tree) override;

 private:
  int n_drafts_;
  double accepted_;
  draft::Token right_;
  std::function<void(int)> drafts_;
  double due_ = 0.0;  // right guesses that the drafts so far have not had
};

}  // namespace troika::papers
