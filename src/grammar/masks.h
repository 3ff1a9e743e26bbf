// Finds the tokens that may follow a state, by walking the vocabulary's tries, and keeps the masks
// that cost much.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "grammar/pool.h"
#include "grammar/token_trie.h"

namespace troika::grammar {

class Masks {
 public:
  // The pool and the tokens must outlive the masks. REQUIRES: the pool is not sealed yet.
  Masks(Pool* pool, const TokenTrie& tokens, size_t most_bytes);

  // Sets the tokens whose bytes lead to a state that can be completed. End tokens are not among
  // them.
  void allowed(Expr state, TokenSet* set);
  // Returns about how many bytes are kept.
  size_t bytes() const {
    return n_kept_bytes_ + n_plain_.capacity() * sizeof(int) + accepts_plain_.capacity();
  }

 private:
  static constexpr int kEndless = 1 << 30;
  int n_plain(Expr state) {
    if (state < n_plain_.size() && n_plain_[state] >= 0) return n_plain_[state];
    return find_n_plain(state);
  }
  int find_n_plain(Expr state);
  int count_plain(Expr state);
  bool accepts_plain(Expr character);
  void walk(const Trie& trie, Expr state, TokenSet* set);
  bool is_mostly_plain(const Trie& trie, Expr state);

  Pool& pool_;
  const TokenTrie& tokens_;
  size_t most_bytes_;
  Expr plain_;                         // stands for one plain character
  std::vector<int> n_plain_;           // by expression; -1 where nobody has looked
  std::vector<int8_t> accepts_plain_;  // by expression; -1 where nobody has looked
  std::vector<Expr> stack_;            // the states on the way to a node, by depth
  size_t n_visited_ = 0;               // counts nodes visited for the mask at work
  size_t n_kept_bytes_ = 0;
  std::unordered_map<Expr, TokenSet> kept_;
};

}  // namespace troika::grammar
