// Guesses of how a text goes on, as a tree: a node follows its parent, and those without one follow
// the text. Sources make trees, the drafter joins them, and a verification runs one as a batch.
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
  float chance;    // of being right where its parent is, from 0 to 1
  int source = 0;  // index of who guessed it
};

class Tree {
 public:
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& operator[](int node) const { return nodes_[static_cast<size_t>(node)]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  bool empty() const { return nodes_.empty(); }
  void clear();
  // So many nodes fit without allocating.
  void reserve(int n_nodes);

  // The child of `parent` with this token: a new one, or the one that is there already, which then
  // keeps the better chance and its source. REQUIRES: parent is kRoot or a node.
  int add(int parent, Token token, float chance, int source = 0);
  // Tokens one after the other, each with the same chance. Returns the last node.
  int add_chain(int parent, std::span<const Token> tokens, float chance, int source = 0);

  // The child with this token, or kNoNode.
  static constexpr int kNoNode = -2;
  int child(int parent, Token token) const;
  // How many nodes there are from the text to this one, itself included.
  int depth(int node) const;

  // Adds rows for a verification: first `last`, the text's last token, which is not in the cache
  // yet and stands at `position`, then the nodes: node i is the row i + 1 behind it. All want
  // logits.
  void add_rows(Token last, int position, cache::SequenceId sequence, cache::Tag tag,
                cache::Batch* batch) const;

 private:
  struct Family {
    int first_child = kNoNode;
    int next_sibling = kNoNode;
  };
  std::vector<Node> nodes_;
  std::vector<Family> families_;  // of the nodes
  int first_root_ = kNoNode;
};

}  // namespace troika::draft
