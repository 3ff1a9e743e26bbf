#include "draft/tree.h"

#include <algorithm>

#include "base/error.h"

namespace troika::draft {

void Tree::clear() {
  nodes_.clear();
  families_.clear();
  first_root_ = kNoNode;
}

int Tree::child(int parent, Token token) const {
  int at = parent == kRoot ? first_root_ : families_[static_cast<size_t>(parent)].first_child;
  while (at != kNoNode && nodes_[static_cast<size_t>(at)].token != token) {
    at = families_[static_cast<size_t>(at)].next_sibling;
  }
  return at;
}

void Tree::reserve(int n_nodes) {
  nodes_.reserve(static_cast<size_t>(n_nodes));
  families_.reserve(static_cast<size_t>(n_nodes));
}

int Tree::add(int parent, Token token, float chance, int source) {
  TROIKA_ASSERT(parent >= kRoot && parent < size());
  const int found = child(parent, token);
  if (found != kNoNode) {
    Node& node = nodes_[static_cast<size_t>(found)];
    if (chance > node.chance) node.chance = chance, node.source = source;
    return found;
  }
  const int node = size();
  nodes_.push_back({token, parent, chance, source});
  families_.push_back({});
  int& first = parent == kRoot ? first_root_ : families_[static_cast<size_t>(parent)].first_child;
  families_.back().next_sibling = first;
  first = node;
  return node;
}

int Tree::add_chain(int parent, std::span<const Token> tokens, float chance, int source) {
  for (const Token token : tokens) parent = add(parent, token, chance, source);
  return parent;
}

void Tree::add_rows(Token last, int position, cache::SequenceId sequence, cache::Tag tag,
                    cache::Batch* batch) const {
  const int first = batch->size();
  batch->rows.push_back({.token = last,
                         .position = position,
                         .sequence = sequence,
                         .parent = -1,
                         .wants_logits = true,
                         .tag = tag});
  for (const Node& node : nodes_) {
    const int parent = first + node.parent + 1;
    const int behind = batch->rows[static_cast<size_t>(parent)].position + 1;
    batch->rows.push_back({.token = node.token,
                           .position = behind,
                           .sequence = sequence,
                           .parent = parent,
                           .wants_logits = true,
                           .tag = tag});
  }
}

}  // namespace troika::draft
