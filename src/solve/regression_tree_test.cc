#include "solve/regression_tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/random.h"

namespace troika::solve {
namespace {

using Features = RegressionTree::Features;

// Counts the leaves that answer for these features, each with a value of its own.
size_t n_answers(const RegressionTree& tree, const std::vector<Features>& features) {
  std::set<double> answers;
  for (const Features& of : features) answers.insert(tree.predict(of));
  return answers.size();
}

TEST(RegressionTree, OneExampleIsItsOwnAnswer) {
  const RegressionTree tree = RegressionTree::fit({{1.0, 2.0}}, {7.0});
  EXPECT_EQ(tree.predict({1.0, 2.0}), 7.0);
  EXPECT_EQ(tree.predict({-5.0, 9.0}), 7.0);
}

TEST(RegressionTree, FindsAStepExactly) {
  std::vector<Features> features;
  std::vector<double> targets;
  for (int i = 0; i < 40; ++i) {
    // The first feature tells nothing. The second one has a step between 16 and 17.
    features.push_back({random_unit(1, static_cast<uint64_t>(i)), static_cast<double>(i)});
    targets.push_back(i <= 16 ? 2.0 : 5.0);
  }
  const RegressionTree tree = RegressionTree::fit(features, targets);
  EXPECT_EQ(n_answers(tree, features), 2u);
  EXPECT_DOUBLE_EQ(tree.predict({0.9, 16.4}), 2.0);
  EXPECT_DOUBLE_EQ(tree.predict({0.1, 16.6}), 5.0);
  EXPECT_DOUBLE_EQ(tree.predict({0.5, 1e9}), 5.0);
}

TEST(RegressionTree, ApproachesASmoothFunctionOfTwoFeatures) {
  std::vector<Features> features;
  std::vector<double> targets;
  const auto function = [](double x, double y) { return std::sin(3 * x) + x * y; };
  for (uint64_t i = 0; i < 4000; ++i) {
    const double x = random_unit(2, 2 * i);
    const double y = random_unit(2, 2 * i + 1);
    features.push_back({x, y});
    targets.push_back(function(x, y));
  }
  const RegressionTree tree = RegressionTree::fit(features, targets, {12, 2, 1e-9});
  double worst = 0.0;
  for (uint64_t i = 0; i < 500; ++i) {
    const double x = random_unit(3, 2 * i);
    const double y = random_unit(3, 2 * i + 1);
    worst = std::max(worst, std::abs(tree.predict({x, y}) - function(x, y)));
  }
  EXPECT_LT(worst, 0.25);
}

TEST(RegressionTree, KeepsItsLimits) {
  std::vector<Features> features;
  std::vector<double> targets;
  for (int i = 0; i < 64; ++i) {
    features.push_back({static_cast<double>(i)});
    targets.push_back(i);
  }
  const auto n_answers_of = [&](const TreeLimits& limits) {
    return n_answers(RegressionTree::fit(features, targets, limits), features);
  };
  // Targets that rise evenly are split in halves.
  EXPECT_EQ(n_answers_of({3, 1, 0.0}), 8u);
  EXPECT_EQ(n_answers_of({20, 16, 0.0}), 4u);
  // The tree does not split where that gains less than asked for.
  EXPECT_EQ(n_answers_of({20, 1, 1e9}), 1u);
}

TEST(RegressionTree, EqualFeaturesWithUnequalTargetsGiveTheMean) {
  const RegressionTree tree = RegressionTree::fit({{1.0}, {1.0}, {1.0}}, {1.0, 2.0, 6.0});
  EXPECT_DOUBLE_EQ(tree.predict({1.0}), 3.0);
}

}  // namespace
}  // namespace troika::solve
