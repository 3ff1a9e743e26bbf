#include "draft/history.h"

#include <algorithm>

namespace troika::draft {
namespace {

constexpr size_t kLeadTokens = 8;  // counts tokens of the prompt that are kept

}  // namespace

HistorySource::HistorySource(std::shared_ptr<const Texts> texts) : texts_(std::move(texts)) {
  learn_texts();
}

void HistorySource::learn_texts() {
  for (; n_known_ < texts_->size(); ++n_known_) {
    automaton_.begin_text();
    for (const Token token : (*texts_)[n_known_]) automaton_.append(token);
  }
}

void HistorySource::reset() {
  learn_texts();
  state_ = SuffixAutomaton::kStart;
  matched_ = 0;
}

void HistorySource::observe(std::span<const Token> tokens) {
  for (const Token token : tokens) {
    SuffixAutomaton::State next = automaton_.next(state_, token);
    while (next == SuffixAutomaton::kNoState && state_ != SuffixAutomaton::kStart) {
      state_ = automaton_.link(state_);
      matched_ = automaton_.length(state_);
      next = automaton_.next(state_, token);
    }
    if (next == SuffixAutomaton::kNoState) continue;
    state_ = next;
    ++matched_;
  }
}

void HistorySource::propose(int most, Tree* tree) {
  if (matched_ > 0) grower_.grow(automaton_, state_, matched_, most, tree);
}

std::vector<Token> history_text(std::span<const Token> prompt, std::span<const Token> answer) {
  const std::span<const Token> lead = prompt.last(std::min(prompt.size(), kLeadTokens));
  std::vector<Token> text(lead.begin(), lead.end());
  text.insert(text.end(), answer.begin(), answer.end());
  return text;
}

}  // namespace troika::draft
