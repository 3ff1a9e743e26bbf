#include "solve/regression_tree.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace troika::solve {
namespace {

struct Split {
  int feature = -1;
  double threshold = 0.0;
  double gain = 0.0;  // the decrease of the sum of squared errors
};

// The examples [begin, end) of `order`.
struct Slice {
  std::vector<int>::iterator begin;
  std::vector<int>::iterator end;
  int size() const { return static_cast<int>(end - begin); }
};

// Finds the best threshold of one feature. Sorts the slice by it.
void try_feature(const std::vector<RegressionTree::Features>& features,
                 const std::vector<double>& targets, int feature, int least_leaf, Slice slice,
                 Split* best) {
  const auto value_of = [&](int example) {
    return features[static_cast<size_t>(example)][static_cast<size_t>(feature)];
  };
  // Equal values go by the example's number, so that the order and thus the sums never change.
  std::sort(slice.begin, slice.end, [&](int a, int b) {
    return value_of(a) != value_of(b) ? value_of(a) < value_of(b) : a < b;
  });
  const int n = slice.size();
  double total = 0.0;
  for (auto at = slice.begin; at != slice.end; ++at) total += targets[static_cast<size_t>(*at)];
  double left = 0.0;
  for (int i = 1; i < n; ++i) {
    left += targets[static_cast<size_t>(slice.begin[i - 1])];
    const double below = value_of(slice.begin[i - 1]);
    const double above = value_of(slice.begin[i]);
    if (below == above || i < least_leaf || n - i < least_leaf) continue;
    const double right = total - left;
    // Sums of squared errors differ only by these terms.
    const double gain = left * left / i + right * right / (n - i) - total * total / n;
    if (gain > best->gain) *best = {feature, below + (above - below) / 2, gain};
  }
}

}  // namespace

RegressionTree RegressionTree::fit(const std::vector<Features>& features,
                                   const std::vector<double>& targets, const TreeLimits& limits) {
  TROIKA_ASSERT(!features.empty() && features.size() == targets.size());
  std::vector<int> order(features.size());
  std::iota(order.begin(), order.end(), 0);
  struct Open {
    int32_t node;
    Slice slice;
  };
  RegressionTree tree;
  tree.nodes_.emplace_back();
  std::vector<Open> open = {{0, {order.begin(), order.end()}}};
  while (!open.empty()) {
    const Open at = open.back();
    open.pop_back();
    double sum = 0.0;
    for (auto i = at.slice.begin; i != at.slice.end; ++i) sum += targets[static_cast<size_t>(*i)];
    const int depth = tree.nodes_[static_cast<size_t>(at.node)].depth;
    tree.nodes_[static_cast<size_t>(at.node)].value = sum / at.slice.size();
    if (depth >= limits.most_depth) continue;
    Split best;
    best.gain = limits.least_gain;
    for (int f = 0; f < static_cast<int>(features.front().size()); ++f) {
      try_feature(features, targets, f, limits.least_leaf, at.slice, &best);
    }
    if (best.feature < 0) continue;
    const auto middle = std::partition(at.slice.begin, at.slice.end, [&](int example) {
      return features[static_cast<size_t>(example)][static_cast<size_t>(best.feature)] <
             best.threshold;
    });
    // Neighbouring doubles have no threshold between them.
    if (middle == at.slice.begin || middle == at.slice.end) continue;
    const auto less = static_cast<int32_t>(tree.nodes_.size());
    Node& node = tree.nodes_[static_cast<size_t>(at.node)];
    node.feature = best.feature;
    node.threshold = best.threshold;
    node.less = less;
    node.more = less + 1;
    tree.nodes_.resize(tree.nodes_.size() + 2);
    for (const int32_t child : {less, less + 1}) {
      tree.nodes_[static_cast<size_t>(child)].depth = depth + 1;
    }
    open.push_back({less, {at.slice.begin, middle}});
    open.push_back({less + 1, {middle, at.slice.end}});
  }
  return tree;
}

double RegressionTree::predict(const Features& features) const {
  const Node* node = &nodes_.front();
  while (node->feature >= 0) {
    const bool is_less = features[static_cast<size_t>(node->feature)] < node->threshold;
    node = &nodes_[static_cast<size_t>(is_less ? node->less : node->more)];
  }
  return node->value;
}

}  // namespace troika::solve
