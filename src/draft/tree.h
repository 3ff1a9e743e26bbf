// Guesses of how a text goes on, as a tree: a node follows its parent, and a node without one
// follows the text. Sources make trees, the drafter joins them, and a verification runs a tree as a
// batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/batch.h"

namespace troika::draft {

using cache::Token;

inline constexpr int kRoot = -1;

struct Node {
  Token token;
  int parent;      // an earlier node; kRoot: it follows the text
  float chance;    // the chance of being right where its parent is, from 0 to 1
  int source = 0;  // the number of the source that guessed it
};

class Tree {
 public:
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& operator[](int node) const { return nodes_[static_cast<size_t>(node)]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  bool empty() const { return nodes_.empty(); }
  void clear();
  // Takes memory, so that n_nodes nodes fit without allocating.
  void reserve(int n_nodes);

  // Returns the child of `parent` with this token: a new node, or the one that is there already,
  // which then keeps the better chance and its source. REQUIRES: parent is kRoot or a node.
  int add(int parent, Token token, float chance, int source = 0);
  // Adds tokens one after the other, each with the same chance. Returns the last node.
  int add_chain(int parent, std::span<const Token> tokens, float chance, int source = 0);

  // Returns the child with this token, or kNoNode.
  static constexpr int kNoNode = -2;
  int child(int parent, Token token) const;

  // Adds rows for a verification. The first is `last`, the text's last token, which is not in the
  // cache yet and stands at `position`. Node i follows as row i + 1 behind it. All rows want
  // logits.
  void add_rows(Token last, int position, cache::SequenceId sequence, cache::Tag tag,
                cache::Batch* batch) const;

 private:
  struct Family {
    int first_child = kNoNode;
    int next_sibling = kNoNode;
  };
  std::vector<Node> nodes_;
  std::vector<Family> families_;  // one entry for each node
  int first_root_ = kNoNode;
};

}  // namespace troika::draft
