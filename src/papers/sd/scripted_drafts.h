// Makes drafts of which as many guesses are right as a paper says (D6), on a phone that computes no
// values. They are chains of guesses, so that verifying them takes the time of real ones.
#pragma once

#include <functional>

#include "draft/source.h"

namespace troika::papers {

class ScriptedDrafts : public draft::Source {
 public:
  // A verification of a draft of n_drafts guesses gives `accepted` tokens on average, with the
  // token behind the draft. `right` is a right guess: the token that the sampler chooses of equal
  // logits. `drafts` is told, before each draft is made, how many guesses it has. REQUIRES: 1 <=
  // accepted <= n_drafts + 1.
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
  // Counts right guesses that are due but that drafts so far have not had.
  double due_ = 0.0;
};

}  // namespace troika::papers
