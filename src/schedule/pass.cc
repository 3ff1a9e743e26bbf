#include "schedule/pass.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace troika::schedule {
namespace {

// Turns counts into the places where parts begin: a 0 in front, then sums.
void sum_up(std::vector<size_t>* counts) {
  counts->insert(counts->begin(), 0);
  std::partial_sum(counts->begin(), counts->end(), counts->begin());
}

}  // namespace

Pass::Pass(std::vector<Node> nodes) : nodes_(std::move(nodes)) {
  std::vector<size_t> n_dependents(nodes_.size(), 0), n_of_lane;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    TROIKA_ASSERT(node.lane >= 0 && node.run >= 0);
    const auto lane = static_cast<size_t>(node.lane);
    n_of_lane.resize(std::max(n_of_lane.size(), lane + 1), 0);
    ++n_of_lane[lane];
    n_runs_ = std::max(n_runs_, static_cast<size_t>(node.run) + 1);
    n_waits_.push_back(static_cast<int>(node.waits_for.size()));
    for (const int other : node.waits_for) {
      TROIKA_ASSERT(other >= 0 && other < static_cast<int>(i));
      ++n_dependents[static_cast<size_t>(other)];
    }
    only_lane_ = i == 0 || node.lane == only_lane_ ? node.lane : -1;
  }
  dependents_begin_ = std::move(n_dependents);
  sum_up(&dependents_begin_);
  order_begin_ = std::move(n_of_lane);
  sum_up(&order_begin_);
  // Parts are filled from the front, each behind what stands in it already.
  dependents_.resize(dependents_begin_.back());
  order_.resize(order_begin_.back());
  std::vector<size_t> next_dependent = dependents_begin_, next_of_lane = order_begin_;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    order_[next_of_lane[static_cast<size_t>(nodes_[i].lane)]++] = static_cast<int>(i);
    for (const int other : nodes_[i].waits_for) {
      dependents_[next_dependent[static_cast<size_t>(other)]++] = static_cast<int>(i);
    }
  }
}

}  // namespace troika::schedule
