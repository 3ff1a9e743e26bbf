// What a text may go on with, as far as somebody knows it for sure: guesses that cannot be right
// are taken out of drafts before they cost a row.
#pragma once

#include <span>
#include <vector>

#include "draft/tree.h"

namespace troika::draft {

// A walk along what may follow a text, token by token, forward and back.
class Rules {
 public:
  virtual ~Rules() = default;
  // The walk begins behind the text.
  virtual void begin(std::span<const Token> text) = 0;
  // Goes on behind this token. False: it must not follow here, and the walk stays where it is.
  virtual bool enter(Token token) = 0;
  // Goes back in front of the token entered last.
  virtual void leave() = 0;
};

class Pruner {
 public:
  // Leaves those nodes of the tree which the rules allow behind the text, in their order.
  void prune(std::span<const Token> text, Rules* rules, Tree* tree);

 private:
  void go_to(int node, Rules* rules);

  Tree kept_;
  std::vector<int> moved_;  // where nodes of the tree are in kept_
  std::vector<int> path_;   // nodes of kept_ that are entered
  std::vector<int> chain_;  // nodes of kept_ to enter, the last one first
};

}  // namespace troika::draft
