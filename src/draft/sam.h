// Drafts from what followed the longest suffixes of the text that occurred before (D3).
#pragma once

#include "draft/source.h"
#include "draft/suffix_automaton.h"

namespace troika::draft {

// Adds to `tree` what followed `state` in the automaton, the likeliest first, and then what
// followed its shorter suffixes. `matched` is the length of the text's suffix that the state stands
// for. A chance is lower the more often a match goes on in a new way: short matches do so more
// often, and matches that were followed by many different tokens.
class SuffixGrower {
 public:
  void grow(const SuffixAutomaton& automaton, SuffixAutomaton::State state, int matched, int most,
            Tree* tree);
  // Takes memory, so that trees of most_nodes nodes grow without allocating.
  void reserve(int most_nodes);

 private:
  struct Candidate {
    float path_chance;  // the chance that all nodes up to this one are right
    float chance;
    int parent;
    Token token;
    SuffixAutomaton::State state;
    int matched;
    bool operator<(const Candidate& other) const { return path_chance < other.path_chance; }
  };
  // Returns the chance that none of the followers follows.
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
