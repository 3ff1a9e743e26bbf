// A decision tree for regression (CART). It splits the space of the features by thresholds so that
// the squared error within the leaves is least, and answers with the mean of a leaf.
#pragma once

#include <cstdint>
#include <vector>

namespace troika::solve {

struct TreeLimits {
  int most_depth = 10;
  int least_leaf = 2;        // counts examples in a leaf
  double least_gain = 1e-6;  // a split must lower the sum of squared errors by this much
};

class RegressionTree {
 public:
  using Features = std::vector<double>;

  // All examples have the same number of features. REQUIRES: at least one example.
  static RegressionTree fit(const std::vector<Features>& features,
                            const std::vector<double>& targets, const TreeLimits& limits = {});

  double predict(const Features& features) const;

 private:
  struct Node {
    int feature = -1;  // -1: a leaf
    double threshold = 0.0;
    int32_t less = -1;  // the child for features below the threshold
    int32_t more = -1;
    double value = 0.0;
    int depth = 0;
  };
  std::vector<Node> nodes_;  // the first node is the root
};

}  // namespace troika::solve
