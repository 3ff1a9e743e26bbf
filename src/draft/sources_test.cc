#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "draft/drafter.h"
#include "draft/lookup.h"
#include "draft/reuse.h"
#include "draft/sam.h"

namespace troika::draft {
namespace {

using Tokens = std::vector<Token>;

// Returns the tokens on the way down that takes the likeliest child each time.
Tokens likeliest(const Tree& tree) {
  Tokens tokens;
  for (int at = kRoot;;) {
    int best = Tree::kNoNode;
    for (int node = 0; node < tree.size(); ++node) {
      if (tree[node].parent != at) continue;
      if (best == Tree::kNoNode || tree[node].chance > tree[best].chance) best = node;
    }
    if (best == Tree::kNoNode) return tokens;
    tokens.push_back(tree[best].token);
    at = best;
  }
}

TEST(Sam, D3_GoesOnAsTheLongestMatchDid) {
  SamSource source;
  source.observe(Tokens{1, 2, 3, 4, 5, 9, 2, 3, 7, 7, 8, 1, 2, 3});
  Tree tree;
  source.propose(12, &tree);
  EXPECT_LE(tree.size(), 12);
  // Behind 1 2 3 came 4 5 9. Behind the shorter 2 3 came also 7.
  EXPECT_EQ(likeliest(tree).at(0), 4);
  EXPECT_EQ(likeliest(tree).at(2), 9);
  ASSERT_NE(tree.child(kRoot, 7), Tree::kNoNode);
  EXPECT_LT(tree[tree.child(kRoot, 7)].chance, tree[tree.child(kRoot, 4)].chance);
  tree.clear();
  source.reset();
  source.observe(Tokens{1, 2, 3});
  source.propose(4, &tree);
  EXPECT_TRUE(tree.empty());
}

TEST(Sam, PrefersWhatCameMoreOften) {
  SamSource source;
  Tokens text;
  for (int i = 0; i < 6; ++i) {
    text.insert(text.end(), {1, 2, i % 3 == 0 ? 5 : 6, 100 + i});
  }
  text.insert(text.end(), {1, 2});
  source.observe(text);
  Tree tree;
  source.propose(8, &tree);
  EXPECT_EQ(likeliest(tree).front(), 6);
  EXPECT_NE(tree.child(kRoot, 5), Tree::kNoNode);
  // The chances of all guesses for one place sum to 1 at most.
  float sum = 0.0f;
  for (const Node& node : tree.nodes()) sum += node.parent == kRoot ? node.chance : 0.0f;
  EXPECT_LE(sum, 1.0f);
}

// A long match is worth more than a short one.
TEST(Sam, TrustsLongMatches) {
  float before = 0.0f;
  for (const int n : {1, 2, 4, 8, 16}) {
    Tokens text;
    for (int i = 0; i < n; ++i) text.push_back(10 + i);
    text.push_back(5);
    for (int i = 0; i < n; ++i) text.push_back(10 + i);
    SamSource source;
    source.observe(text);
    Tree tree;
    source.propose(1, &tree);
    ASSERT_EQ(tree.size(), 1);
    EXPECT_EQ(tree[0].token, 5);
    EXPECT_GT(tree[0].chance, before);
    before = tree[0].chance;
  }
}

TEST(Lookup, D6CopiesFromTheLastPlace) {
  LookupSource source;
  source.observe(Tokens{1, 2, 3, 4, 9, 1, 2, 3, 5, 6, 1, 2, 3});
  Tree tree;
  source.propose(3, &tree);
  EXPECT_EQ(tree.size(), 3);
  EXPECT_EQ(likeliest(tree), (Tokens{5, 6, 1}));
  tree.clear();
  source.observe(Tokens{77});
  source.propose(3, &tree);
  EXPECT_TRUE(tree.empty());
  source.reset();
  source.propose(3, &tree);
  EXPECT_TRUE(tree.empty());
}

// The draft was 10 11 12 13 14. The model says 10, then 99 in place of 11, but agrees with 13 and
// 14 further on.
struct Rejection {
  Rejection() { tree.add_chain(kRoot, Tokens{10, 11, 12, 13, 14}, 0.5f); }
  Verdict verdict() const { return {tree, predicted, path, 99}; }
  Tree tree;
  Tokens predicted = {10, 99, 55, 13, 14, 15};
  std::vector<int> path = {0};
};

TEST(Reuse, D4_BringsBackWhatTheModelAgreedWith) {
  Rejection rejection;
  ReuseSource source;
  source.learn(rejection.verdict());
  source.observe(Tokens{10, 99});
  Tree tree;
  source.propose(8, &tree);
  EXPECT_EQ(likeliest(tree), (Tokens{13, 14}));
  // The text follows the segment, so its rest remains until it is used up.
  source.observe(Tokens{13});
  tree.clear();
  source.propose(8, &tree);
  EXPECT_EQ(likeliest(tree), (Tokens{14}));
  source.observe(Tokens{14});
  tree.clear();
  source.propose(8, &tree);
  EXPECT_TRUE(tree.empty());
}

// Further on the model agrees with runs of 2, 4 and 1 tokens.
TEST(Reuse, D4_TheLongestRunIsTheOneThatComesBack) {
  Tree tree;
  tree.add_chain(kRoot, Tokens{10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, 0.5f);
  for (const bool is_longest_in_another_branch : {false, true}) {
    Tokens longest = {14, 15, 16, 17};
    Tokens said = {99, 11, 12, 50, 14, 15, 16, 17, 51, 19, 52, 53};
    if (is_longest_in_another_branch) {
      longest = {31, 32, 33, 34, 35};
      tree.add_chain(kRoot, Tokens{30, 31, 32, 33, 34, 35}, 0.4f);
      said = {99, 11, 12, 50, 14, 15, 16, 17, 51, 19, 52, 53, 31, 32, 33, 34, 35, 36};
    }
    ReuseSource source;
    source.learn({tree, said, {}, 99});
    source.observe(Tokens{99});
    Tree guesses;
    source.propose(16, &guesses);
    EXPECT_EQ(likeliest(guesses), longest);
    EXPECT_EQ(guesses.size(), static_cast<int>(longest.size()));
  }
}

// The segment has at most 16 tokens, however long the draft was from which it comes.
TEST(Reuse, D4_ASegmentIsKeptForOneStepAtLeastAndIsNeverLongerThan16Tokens) {
  Tokens chain;
  for (Token token = 10; token < 40; ++token) chain.push_back(token);
  Tree tree;
  tree.add_chain(kRoot, chain, 0.5f);
  Tokens predicted = chain;
  predicted[0] = 99;
  predicted.push_back(40);
  ReuseSource source;
  source.learn({tree, predicted, {}, 99});
  source.observe(Tokens{99});
  Tree guesses;
  source.propose(31, &guesses);
  EXPECT_EQ(likeliest(guesses), Tokens(chain.begin() + 1, chain.begin() + 17));
}

TEST(Reuse, D4_ForgetsWhatDoesNotCome) {
  Rejection rejection;
  ReuseSource source;
  source.learn(rejection.verdict());
  Tree tree;
  source.propose(8, &tree);
  EXPECT_EQ(tree.size(), 2);
  const Tree nothing;
  const Tokens predicted = {3};
  int n_steps = 0;
  for (; n_steps < 10; ++n_steps) {
    source.learn({nothing, predicted, {}, 3});
    source.observe(Tokens{3});
    tree.clear();
    source.propose(8, &tree);
    if (tree.empty()) break;
  }
  EXPECT_GE(n_steps, 1);
  EXPECT_LT(n_steps, 5);
}

// Segments also end where newer ones take their room.
TEST(Reuse, D4_NoSegmentIsProposedInMoreThanFourSteps) {
  ReuseSource source;
  const auto reject = [&](const Tokens& tokens) {
    Tree tree;
    tree.add_chain(kRoot, tokens, 0.5f);
    Tokens predicted = tokens;
    predicted[0] = 99;
    predicted.push_back(98);
    source.learn({tree, predicted, {}, 99});
    source.observe(Tokens{99});
  };
  reject({10, 11, 12, 13});
  reject({20, 21, 22, 23});
  reject({30, 31, 32, 33});
  const Tree nothing;
  const Tokens predicted = {97};
  std::map<Token, int> n_steps;
  for (int step = 0; step < 20; ++step) {
    Tree guesses;
    source.propose(3, &guesses);
    for (const Node& node : guesses.nodes()) ++n_steps[node.token];
    source.learn({nothing, predicted, {}, 97});
    source.observe(Tokens{97});
  }
  EXPECT_EQ(n_steps[31], 4);
  for (const auto& [token, n] : n_steps) EXPECT_LE(n, 4) << token;
}

TEST(Reuse, D4_MakesRoomWhereDraftsAreLongAnyway) {
  Rejection rejection;
  ReuseSource source;
  source.learn(rejection.verdict());
  Tree tree;
  source.propose(8, &tree);
  Tree large;
  for (Token token = 100; token < 120; ++token) large.add(kRoot, token, 0.1f);
  const Tokens predicted(21, 3);
  source.learn({large, predicted, {}, 3});
  tree.clear();
  source.propose(8, &tree);
  EXPECT_TRUE(tree.empty());
}

// Lets a model answer. The context says "1 2 3 ... 12", and the answer has other words for two of
// these. Behind a word that the context does not have there is nothing to copy.
Statistics answer_in_other_words(bool with_reuse) {
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<SamSource>());
  if (with_reuse) sources.push_back(std::make_unique<ReuseSource>());
  Drafter drafter(std::move(sources), {16, /*is_fixed=*/true});
  const Tokens context = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 50};
  // No draft has the last token of the answer.
  const Tokens answer = {1, 2, 77, 4, 5, 6, 78, 8, 9, 10, 11, 12, 50, 79};
  Tokens text = context;
  text.push_back(60);
  const size_t n_before = text.size();
  drafter.begin(text);
  while (text.size() < n_before + answer.size()) {
    const Tree& tree = drafter.propose(text, 15);
    // Behind a wrong guess the model goes on as the context does.
    Tokens predicted = {0};
    for (const Node& node : tree.nodes()) predicted.push_back(node.token < 12 ? node.token + 1 : 0);
    std::vector<int> path;
    int at = kRoot;
    Token next = -1;
    for (size_t i = text.size() - n_before; i < answer.size(); ++i) {
      next = predicted[static_cast<size_t>(at) + 1] = answer[i];
      at = tree.child(at, next);
      if (at == Tree::kNoNode) break;
      path.push_back(at);
    }
    drafter.learn({tree, predicted, path, next});
    for (const int node : path) text.push_back(tree[node].token);
    text.push_back(next);
  }
  return drafter.statistics();
}

TEST(Reuse, D4_DraftsAreLongerAndMoreIsAcceptedWhereAWordIsAnother) {
  const Statistics without = answer_in_other_words(false), with = answer_in_other_words(true);
  EXPECT_EQ(with.n_tokens, without.n_tokens);
  EXPECT_LT(with.n_verifications, without.n_verifications);
  EXPECT_GT(with.n_accepted, without.n_accepted);
  EXPECT_GT(with.sources[1].n_accepted, 0);
  // Without reuse two steps have no draft: those behind the words that the context does not have.
  EXPECT_EQ(with.n_of_draft_nodes[0] + 2, without.n_of_draft_nodes[0]);
  EXPECT_GT(with.n_verified, without.n_verified);
}

TEST(Reuse, KeepsNothingOfADraftThatWasRightOrWhollyWrong) {
  Rejection rejection;
  ReuseSource source;
  rejection.predicted = {10, 99, 1, 2, 3, 4};
  source.learn(rejection.verdict());
  Tree tree;
  source.propose(8, &tree);
  EXPECT_TRUE(tree.empty());
  const std::vector<int> all = {0, 1, 2, 3, 4};
  const Tokens right = {10, 11, 12, 13, 14, 15};
  source.learn({rejection.tree, right, all, 15});
  source.propose(8, &tree);
  EXPECT_TRUE(tree.empty());
}

}  // namespace
}  // namespace troika::draft
