// Drafts from answers to the same task before (D5): what followed the longest suffix of the text in
// any of them.
#pragma once

#include <memory>

#include "draft/history_file.h"
#include "draft/sam.h"

namespace troika::draft {

class HistorySource : public Source {
 public:
  // Texts that are added later count from the next `reset` on.
  explicit HistorySource(std::shared_ptr<const Texts> texts);

  const char* name() const override { return "history"; }
  void reset() override;
  void observe(std::span<const Token> tokens) override;
  void propose(int most, Tree* tree) override;

 private:
  void learn_texts();

  std::shared_ptr<const Texts> texts_;
  size_t n_known_ = 0;
  SuffixAutomaton automaton_;  // of the texts
  SuffixAutomaton::State state_ = SuffixAutomaton::kStart;
  int matched_ = 0;  // tokens at the text's end that the state stands for
  SuffixGrower grower_;
};

// What of an answer is kept: its tokens behind the last few of the prompt, so that the beginning
// can be found too.
std::vector<Token> history_text(std::span<const Token> prompt, std::span<const Token> answer);

}  // namespace troika::draft
