#include "draft/calibrated.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "draft/drafter.h"

namespace troika::draft {
namespace {

using Tokens = std::vector<Token>;

LikelyNext likely(int position, std::initializer_list<Token> tokens) {
  LikelyNext next;
  next.position = position;
  float chance = 0.8f;
  for (const Token token : tokens) {
    next.tokens[next.n] = token;
    next.chances[next.n++] = chance;
    chance *= 0.2f;
  }
  return next;
}

int child(const Tree& tree, std::initializer_list<Token> path) {
  int at = kRoot;
  for (const Token token : path) {
    at = tree.child(at, token);
    if (at == Tree::kNoNode) return at;
  }
  return at;
}

// The paper has this example: "Clinton 's security detail has arrived at Des Moines", where the
// model would have said "arrived" behind "Clinton".
constexpr Token kClinton = 1, kS = 2, kSecurity = 3, kDetail = 4, kHas = 5, kArrived = 6, kAt = 7,
                kDes = 8, kMoines = 9, kSummary = 10;
const Tokens kContext = {kClinton, kS,  kSecurity, kDetail, kHas,
                         kArrived, kAt, kDes,      kMoines, kSummary};

TEST(Calibrated, D2_GoesOnWhereTheModelsOwnTokenStands) {
  CalibratedSource source;
  source.observe(kContext);
  source.calibrate(std::vector<LikelyNext>{likely(0, {kHas, kArrived, kS})});
  source.observe(Tokens{kClinton});
  Tree tree;
  source.propose(16, &tree);
  EXPECT_LE(tree.size(), 16);
  tree.clear();
  source.propose(100, &tree);
  EXPECT_NE(child(tree, {kS, kSecurity}), Tree::kNoNode) << "as it stands in the context";
  ASSERT_NE(child(tree, {kArrived, kAt, kDes, kMoines}), Tree::kNoNode);
  EXPECT_NE(child(tree, {kHas, kArrived, kAt}), Tree::kNoNode);
  // A token that the model wants less is less likely.
  EXPECT_GT(tree[child(tree, {kHas})].chance, tree[child(tree, {kArrived})].chance);
}

TEST(Calibrated, GuessesNothingBeforeTheModelSpoke) {
  CalibratedSource source;
  source.observe(kContext);
  source.observe(Tokens{kClinton});
  Tree tree;
  source.propose(16, &tree);
  EXPECT_TRUE(tree.empty());
  source.calibrate(std::vector<LikelyNext>{likely(0, {kArrived})});
  source.propose(16, &tree);
  EXPECT_FALSE(tree.empty());
  tree.clear();
  source.reset();
  source.observe(Tokens{kClinton, kS, kClinton});
  source.propose(16, &tree);
  EXPECT_TRUE(tree.empty()) << "another text";
}

TEST(Calibrated, BelievesThePlaceThatAgreesMore) {
  CalibratedSource source;
  // Token 5 stands behind 1 2 and, later, behind 3 4.
  source.observe(Tokens{1, 2, 5, 60, 3, 4, 5, 61, 9});
  source.calibrate(std::vector<LikelyNext>{likely(2, {70}), likely(6, {71})});
  source.observe(Tokens{1, 2, 5});
  Tree tree;
  source.propose(8, &tree);
  ASSERT_NE(child(tree, {70}), Tree::kNoNode);
  if (child(tree, {71}) != Tree::kNoNode) {
    EXPECT_GT(tree[child(tree, {70})].chance, 4.0f * tree[child(tree, {71})].chance);
  }
}

TEST(Calibrated, LearnsFromItsOwnAnswer) {
  CalibratedSource source;
  source.observe(Tokens{1, 2, 3});
  Tree tree;
  tree.add(kRoot, 4, 0.5f);
  constexpr int kVocab = 10;
  std::vector<float> logits(2 * kVocab, 0.0f);
  logits[4] = 9.0f, logits[7] = 8.5f;  // are the logits behind 3
  logits[kVocab + 5] = 9.0f;           // is the logit behind 4
  const std::vector<int> path = {0};
  source.learn({tree, {}, path, 5, logits.data(), kVocab});
  source.observe(Tokens{4, 5, 3});
  Tree guesses;
  source.propose(8, &guesses);
  EXPECT_NE(child(guesses, {4, 5}), Tree::kNoNode);
  EXPECT_NE(child(guesses, {7}), Tree::kNoNode) << "what it nearly said";
}

// A model that wants one certain token behind each. It reads a prompt in which half of the tokens
// are followed by others, and answers in its own words.
class OwnWords {
 public:
  static constexpr Token kTokens = 120;
  static constexpr int kPrompt = 480, kAnswer = 60;

  static Token wanted(Token token) { return (token + 7) % kTokens; }
  static Token draw(uint64_t seed, int i, Token n) {
    return static_cast<Token>(random_bits(seed, static_cast<uint64_t>(i)) %
                              static_cast<uint64_t>(n));
  }
  OwnWords() {
    prompt_.push_back(1);
    for (int i = 1; i < kPrompt; ++i) {
      prompt_.push_back(draw(1, i, 2) == 0 ? wanted(prompt_.back()) : draw(2, i, kTokens));
    }
  }
  // Returns what the model would say next at `percent` of the prompt's tokens, with another token
  // beside it.
  std::vector<LikelyNext> covered(int percent) const {
    std::vector<LikelyNext> all;
    for (int i = 0; i < kPrompt; ++i) {
      const Token own = wanted(prompt_[static_cast<size_t>(i)]);
      if (draw(3, i, 100) < percent) all.push_back(likely(i, {own, draw(4, i, kTokens)}));
    }
    return all;
  }
  // Answers with drafts of 15 nodes from what is covered.
  Statistics answer(int percent) const {
    std::vector<std::unique_ptr<Source>> sources;
    sources.push_back(std::make_unique<CalibratedSource>());
    Drafter drafter(std::move(sources), {16, /*is_fixed=*/true});
    Tokens text = prompt_;
    drafter.begin(text);
    drafter.calibrate(covered(percent));
    for (int n = 0; n < kAnswer;) {
      const Tree& tree = drafter.propose(text, kAnswer - n - 1);
      std::vector<int> path;
      Token next = wanted(text.back());
      for (int at = tree.child(kRoot, next); at != Tree::kNoNode; at = tree.child(at, next)) {
        path.push_back(at);
        text.push_back(next);
        next = wanted(next);
      }
      drafter.learn({tree, {}, path, next});
      text.push_back(next);
      n += static_cast<int>(path.size()) + 1;
    }
    return drafter.statistics();
  }

 private:
  Tokens prompt_;
};

TEST(Calibrated, D2_MoreOfThePromptCoveredMeansMoreAccepted) {
  const OwnWords model;
  EXPECT_EQ(model.answer(0).n_accepted, 0);
  int64_t before = 0;
  for (const int coverage : {10, 30, 100}) {
    const Statistics s = model.answer(coverage);
    EXPECT_EQ(s.n_tokens, OwnWords::kAnswer);
    EXPECT_GT(s.n_accepted, before) << coverage << " %";
    before = s.n_accepted;
  }
  EXPECT_GT(before, OwnWords::kAnswer / 2);
}

TEST(Calibrated, IgnoresPositionsThatAreNotThere) {
  CalibratedSource source;
  source.observe(Tokens{1, 2});
  source.calibrate(std::vector<LikelyNext>{likely(-1, {3}), likely(2, {3})});
  source.observe(Tokens{1, 2});
  Tree tree;
  source.propose(8, &tree);
  EXPECT_TRUE(tree.empty());
}

TEST(LikelyNextOfARow, HasSharesOfTheBest) {
  const std::vector<float> logits = {0.0f, std::log(2.0f), -50.0f, std::log(4.0f), -60.0f, -70.0f};
  const LikelyNext next = likely_next(12, logits);
  EXPECT_EQ(next.position, 12);
  ASSERT_EQ(next.n, 4);
  EXPECT_EQ(next.tokens[0], 3);
  EXPECT_EQ(next.tokens[2], 0);
  EXPECT_NEAR(next.chances[0], 4.0f / 7.0f, 1e-5f);
  EXPECT_NEAR(next.chances[1], 2.0f / 7.0f, 1e-5f);
}

}  // namespace
}  // namespace troika::draft
