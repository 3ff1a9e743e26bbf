// Rules about what a text may go on with, as far as somebody knows for sure: guesses that cannot be
// right are taken out of drafts before they cost a row.
#pragma once

#include <span>
#include <vector>

#include "draft/tree.h"

namespace troika::draft {

// A walk, token by token, forward and back, along what may follow a text.
class Rules {
 public:
  virtual ~Rules() = default;
  // Begins the walk behind the text.
  virtual void begin(std::span<const Token> text) = 0;
  // Goes on behind this token. Returns false where the token must not follow, or where nobody has
  // the time to find out now: then the walk stays where it is.
  virtual bool enter(Token token) = 0;
  // Goes back in front of the token that was entered last.
  virtual void leave() = 0;
};

class Pruner {
 public:
  // Keeps those nodes of the tree, in their order, that the rules allow behind the text.
  void prune(std::span<const Token> text, Rules* rules, Tree* tree);

 private:
  bool go_to(int node, Rules* rules);

  Tree kept_;
  std::vector<int> moved_;  // by node of the tree: its place in kept_
  std::vector<int> path_;   // the entered nodes of kept_
  std::vector<int> chain_;  // the nodes of kept_ that must be entered, the last one first
};

}  // namespace troika::draft
