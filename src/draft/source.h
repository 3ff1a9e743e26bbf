// Where guesses come from. A source sees the text as it grows and, when asked, guesses how it goes
// on; afterwards it may look at what the model made of the guesses. It decides nothing: the drafter
// joins the trees of all sources, corrects their chances by what came true, and cuts the whole to
// the width that pays.
#pragma once

#include <span>

#include "draft/tree.h"

namespace troika::draft {

// What one verification showed.
struct Verdict {
  const Tree& tree;
  // (1 + tree.size()) What the model would say after the text, then after each node: what it did
  // say along the path, elsewhere the most likely token. Empty unless a source uses it.
  std::span<const Token> predicted;
  std::span<const int> path;  // the nodes that were right, from the first on
  Token next;                 // the model's own token behind them; -1: none could be chosen
  // (1 + tree.size(), n_vocab) during the call only; null where nobody keeps them.
  const float* logits = nullptr;
  int n_vocab = 0;
};

// What the model would say after a position of the text, the likeliest first.
struct LikelyNext {
  static constexpr int kMost = 4;
  int position = 0;
  int n = 0;
  Token tokens[kMost] = {};
  float chances[kMost] = {};  // their shares
};

class Source {
 public:
  virtual ~Source() = default;
  // As statistics and people call it: "sam", "lookup", ...
  virtual const char* name() const = 0;

  // The text may grow to so many tokens, and drafts to so many nodes: room for what is kept of them
  // is taken now, so that steps allocate nothing.
  virtual void reserve(int /*most_text*/, int /*most_nodes*/) {}
  // Forgets the text, not what it knows from elsewhere. A new text follows with `observe`.
  virtual void reset() = 0;
  // The text goes on with these tokens: prompt and answer alike.
  virtual void observe(std::span<const Token> tokens) = 0;
  // What the model said while it read the text, of some positions of it.
  virtual void calibrate(std::span<const LikelyNext> /*likely*/) {}
  // Adds guesses of what follows the text to `tree`, which is empty: at most `most` nodes, the best
  // ones, with an estimate of their chances. `Node::source` is filled in by the drafter. A small
  // part of a millisecond, unless the source says so by being slow.
  virtual void propose(int most, Tree* tree) = 0;
  // Whether `learn` looks at `Verdict::predicted`, which costs a little for each node.
  virtual bool uses_predictions() const { return false; }
  // After each verification, before the tokens are observed.
  virtual void learn(const Verdict& /*verdict*/) {}
};

}  // namespace troika::draft
