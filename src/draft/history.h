// Drafts from earlier answers to the same task (D5): what followed, in any of them, the longest
// suffix of the text.
#pragma once

#include <memory>

#include "draft/history_file.h"
#include "draft/sam.h"

namespace troika::draft {

class HistorySource : public Source {
 public:
  // Texts that are added later are used from the next `reset` on.
  explicit HistorySource(std::shared_ptr<const Texts> texts);

  const char* name() const override { return "history"; }
  void reserve(int /*most_text*/, int most_nodes) override { grower_.reserve(most_nodes); }
  void reset() override;
  void observe(std::span<const Token> tokens) override;
  void propose(int most, Tree* tree) override;

 private:
  void learn_texts();

  std::shared_ptr<const Texts> texts_;
  size_t n_known_ = 0;
  SuffixAutomaton automaton_;  // holds all texts
  SuffixAutomaton::State state_ = SuffixAutomaton::kStart;
  int matched_ = 0;  // how many tokens at the text's end the state stands for
  SuffixGrower grower_;
};

// Returns the part of an answer that is kept: its tokens behind the last few of the prompt, so that
// its beginning can be found, too.
std::vector<Token> history_text(std::span<const Token> prompt, std::span<const Token> answer);

}  // namespace troika::draft
