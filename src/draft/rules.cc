#include "draft/rules.h"

namespace troika::draft {

// Walks to a node: leaves nodes that are no ancestors of it, and enters the rest of the way.
// Parents have smaller numbers than their children. Returns false where the way is closed now,
// although it was open before.
bool Pruner::go_to(int node, Rules* rules) {
  chain_.clear();
  int at = node;
  for (;;) {
    const int entered = path_.empty() ? kRoot : path_.back();
    if (at == entered) break;
    if (entered > at) {
      rules->leave();
      path_.pop_back();
    } else {
      chain_.push_back(at);
      at = kept_[at].parent;
    }
  }
  for (; !chain_.empty(); chain_.pop_back()) {
    if (!rules->enter(kept_[chain_.back()].token)) return false;
    path_.push_back(chain_.back());
  }
  return true;
}

void Pruner::prune(std::span<const Token> text, Rules* rules, Tree* tree) {
  if (tree->empty()) return;
  rules->begin(text);
  kept_.clear();
  path_.clear();
  moved_.clear();
  for (const Node& node : tree->nodes()) {
    const int parent = node.parent == kRoot ? kRoot : moved_[static_cast<size_t>(node.parent)];
    moved_.push_back(Tree::kNoNode);
    if (parent == Tree::kNoNode) continue;
    if (!go_to(parent, rules) || !rules->enter(node.token)) continue;
    moved_.back() = kept_.add(parent, node.token, node.chance, node.source);
    path_.push_back(moved_.back());
  }
  for (; !path_.empty(); path_.pop_back()) rules->leave();
  std::swap(*tree, kept_);
}

}  // namespace troika::draft
