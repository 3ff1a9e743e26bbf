// Where guesses come from. A source sees the text as it grows and, when asked, guesses how it goes
// on. Afterwards it may look at what the model made of the guesses. It decides nothing: the drafter
// joins the trees of all sources, corrects their chances by what came true, and cuts the whole to
// the width that pays.
#pragma once

#include <atomic>
#include <span>

#include "draft/tree.h"

namespace troika::draft {

// What one verification has shown.
struct Verdict {
  const Tree& tree;
  // (1 + tree.size()): what the model would say after the text, and after each node. Along the path
  // it is what the model did say, elsewhere the most likely token. Empty unless a source uses it.
  std::span<const Token> predicted;
  std::span<const int> path;  // the right nodes, from the first on
  Token next;                 // the model's own token behind the path; -1: no token could be chosen
  // (1 + tree.size(), n_vocab): valid during the call only; null where nobody keeps them.
  const float* logits = nullptr;
  int n_vocab = 0;
};

// The tokens that the model would choose after a position of the text, the likeliest first.
struct LikelyNext {
  static constexpr int kMost = 4;
  int position = 0;
  int n = 0;
  Token tokens[kMost] = {};
  float chances[kMost] = {};  // the tokens' shares
};

class Source {
 public:
  virtual ~Source() = default;
  // Returns the source's name for people and statistics: "sam", "lookup", ...
  virtual const char* name() const = 0;

  // Takes memory for texts of most_text tokens and drafts of most_nodes nodes, so that steps
  // allocate nothing.
  virtual void reserve(int /*most_text*/, int /*most_nodes*/) {}
  // Forgets the text, but not what the source knows from elsewhere. A new text follows with
  // `observe`.
  virtual void reset() = 0;
  // Is told the tokens with which the text goes on, in the prompt and in the answer alike.
  virtual void observe(std::span<const Token> tokens) = 0;
  // Is told before a text what ends it early, null: nothing does. A source whose guesses take long
  // looks at it and then guesses nothing.
  virtual void heed(const std::atomic<bool>* /*cancel*/) {}
  // Is told what the model said at some positions of the text, while it read the text.
  virtual void calibrate(std::span<const LikelyNext> /*likely*/) {}
  // Adds guesses of what follows the text to `tree`, which is empty: at most `most` nodes, the best
  // ones, with an estimate of their chances. The drafter fills in `Node::source`. A call takes a
  // small part of a millisecond, unless the source says otherwise.
  virtual void propose(int most, Tree* tree) = 0;
  // Says whether guessing takes a part of a pass or more, so that it is measured whether it pays.
  virtual bool takes_passes() const { return false; }
  // Says whether `learn` looks at `Verdict::predicted`, which costs a little for each node.
  virtual bool uses_predictions() const { return false; }
  // Is called after each verification, before the tokens are observed.
  virtual void learn(const Verdict& /*verdict*/) {}
};

}  // namespace troika::draft
