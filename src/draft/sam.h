// Drafts found by the longest suffixes of the text that occurred before (D3).
#pragma once

#include "draft/source.h"
#include "draft/suffix_automaton.h"

namespace troika::draft {

// Adds to `tree` what followed `state` in the automaton, the likeliest first, where `matched` is
// the length of the suffix of the text that the state stands for; then what followed its shorter
// suffixes. Chances are those of a model that escapes to the shorter suffix the more often the
// shorter the match and the more different tokens followed it.
class SuffixGrower {
 public:
  void grow(const SuffixAutomaton& automaton, SuffixAutomaton::State state, int matched, int most,
            Tree* tree);
  // Trees of so many nodes are grown without allocating.
  void reserve(int most_nodes);

 private:
  struct Candidate {
    float path_chance;  // of all nodes up to this one
    float chance;
    int parent;
    Token token;
    SuffixAutomaton::State state;
    int matched;
    bool operator<(const Candidate& other) const { return path_chance < other.path_chance; }
  };
  // Returns the chance that none of these follows.
  float push_followers(const SuffixAutomaton& automaton, SuffixAutomaton::State state, int matched,
                       int parent, float path_chance, float share);

  std::vector<Candidate> heap_;
};

class SamSource : public Source {
 public:
  const char* name() const override { return "sam"; }
  void reserve(int most_text, int most_nodes) override {
    automaton_.reserve(most_text);
    grower_.reserve(most_nodes);
  }
  void reset() override { automaton_.clear(); }
  void observe(std::span<const Token> tokens) override;
  void propose(int most, Tree* tree) override;

 private:
  SuffixAutomaton automaton_;
  SuffixGrower grower_;
};

}  // namespace troika::draft
