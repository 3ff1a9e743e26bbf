#include "draft/rules.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "draft/drafter.h"

namespace troika::draft {
namespace {

// Tokens must count up from the text's last one, by one or by two.
class Climb : public Rules {
 public:
  void begin(std::span<const Token> text) override {
    EXPECT_TRUE(at_.empty());
    start_ = text.back();
  }
  bool enter(Token token) override {
    ++n_entered;
    const Token last = at_.empty() ? start_ : at_.back();
    if (token != last + 1 && token != last + 2) return false;
    at_.push_back(token);
    return true;
  }
  void leave() override { at_.pop_back(); }
  bool is_at_its_beginning() const { return at_.empty(); }
  int n_entered = 0;

 private:
  Token start_ = 0;
  std::vector<Token> at_;
};

TEST(DraftRules, WhatMustNotFollowGoesWithAllBehindIt) {
  Tree tree;
  const int right = tree.add(kRoot, 11, 0.5f, 1);
  const int wrong = tree.add(kRoot, 13, 0.4f, 2);
  tree.add(wrong, 14, 0.3f, 2);
  const int far = tree.add(right, 13, 0.2f, 3);
  tree.add(right, 15, 0.2f, 3);
  tree.add(far, 14, 0.1f, 4);
  Climb climb;
  Pruner pruner;
  const Token text[] = {3, 10};
  pruner.prune(text, &climb, &tree);
  ASSERT_EQ(tree.size(), 3);
  EXPECT_EQ(tree[0].token, 11);
  EXPECT_EQ(tree[1].token, 13);
  EXPECT_EQ(tree[1].parent, 0);
  EXPECT_EQ(tree[2].token, 14);
  EXPECT_EQ(tree[2].parent, 1);
  EXPECT_EQ(tree[2].chance, 0.1f);
  EXPECT_EQ(tree[2].source, 4);
  EXPECT_TRUE(climb.is_at_its_beginning());
}

// Nodes of random trees stand in any order in which parents come before children.
TEST(DraftRules, RandomTreesKeepExactlyTheNodesWhoseWholeWayIsAllowed) {
  const Token text[] = {0};
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Tree tree;
    for (uint64_t i = 0; i < 40; ++i) {
      const int parent =
          static_cast<int>(random_bits(seed, 2 * i) % (static_cast<uint64_t>(tree.size()) + 1)) - 1;
      const Token before = parent == kRoot ? 0 : tree[parent].token;
      tree.add(parent, before + static_cast<Token>(random_bits(seed, 2 * i + 1) % 4), 0.5f);
    }
    std::vector<Token> expected;
    std::vector<bool> is_kept;
    for (const Node& node : tree.nodes()) {
      const Token before = node.parent == kRoot ? 0 : tree[node.parent].token;
      const bool is_allowed = node.token == before + 1 || node.token == before + 2;
      is_kept.push_back(is_allowed &&
                        (node.parent == kRoot || is_kept[static_cast<size_t>(node.parent)]));
      if (is_kept.back()) expected.push_back(node.token);
    }
    Climb climb;
    Pruner pruner;
    pruner.prune(text, &climb, &tree);
    std::vector<Token> kept;
    for (const Node& node : tree.nodes()) kept.push_back(node.token);
    EXPECT_EQ(kept, expected);
    EXPECT_TRUE(climb.is_at_its_beginning());
  }
}

// Rules that have time for few questions only: behind those they allow nothing.
class Hurried : public Climb {
 public:
  explicit Hurried(int most) : most_(most) {}
  bool enter(Token token) override { return n_entered < most_ && Climb::enter(token); }

 private:
  int most_;
};

// A token that was allowed once may be refused when the walk comes back to it.
TEST(DraftRules, AWayThatIsClosedLaterEndsTheGuessesBehindIt) {
  const Token text[] = {0};
  for (int most = 0; most <= 9; ++most) {
    Tree tree;
    const int left = tree.add(kRoot, 1, 0.9f), right = tree.add(kRoot, 2, 0.8f);
    const int below = tree.add(left, 2, 0.7f);  // the walk returns to the left for it
    tree.add(right, 3, 0.6f);
    tree.add(below, 3, 0.5f);
    Hurried hurried(most);
    Pruner pruner;
    pruner.prune(text, &hurried, &tree);
    EXPECT_LE(tree.size(), most);
    EXPECT_TRUE(hurried.is_at_its_beginning());
    for (int i = 0; i < tree.size(); ++i) EXPECT_LT(tree[i].parent, i);
    EXPECT_TRUE(most < 9 || tree.size() == 5);
  }
}

// A source that proposes the same tokens whatever the text is.
class Stubborn : public Source {
 public:
  const char* name() const override { return "stubborn"; }
  void reset() override {}
  void observe(std::span<const Token>) override {}
  void propose(int, Tree* tree) override {
    const Token right[] = {6, 7, 9}, wrong[] = {8, 9};
    tree->add_chain(kRoot, wrong, 0.9f);
    tree->add_chain(kRoot, right, 0.9f);
  }
};

TEST(DraftRules, ADrafterProposesNothingThatTheyForbid) {
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<Stubborn>());
  DrafterOptions options;
  options.is_fixed = true;
  options.rules = std::make_shared<Climb>();
  Drafter drafter(std::move(sources), options);
  const Token text[] = {1, 5};
  drafter.begin(text);
  const Tree& tree = drafter.propose(text, 10);
  ASSERT_EQ(tree.size(), 3);
  EXPECT_EQ(tree[0].token, 6);
  EXPECT_EQ(tree[2].token, 9);
}

}  // namespace
}  // namespace troika::draft
