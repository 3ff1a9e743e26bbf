#include "schedule/out_of_order.h"

#include <algorithm>

namespace troika::schedule {

void OutOfOrder::find_busiest(const Pass& pass) {
  std::vector<double> us;
  for (const Node& node : pass.nodes) {
    us.resize(std::max(us.size(), static_cast<size_t>(node.lane) + 1), 0.0);
    us[static_cast<size_t>(node.lane)] += node.expected_us;
  }
  busiest_ = static_cast<int>(std::max_element(us.begin(), us.end()) - us.begin());
  known_ = &pass;
  known_nodes_ = pass.nodes.size();
}

double OutOfOrder::contribution(const Situation& at, int node) const {
  const bool is_busiest = at.lane == busiest_;
  double us = 0.0;
  for (const int dependent : at.dependents[static_cast<size_t>(node)]) {
    const Node& next = at.pass.nodes[static_cast<size_t>(dependent)];
    const bool can_start = at.n_missing[static_cast<size_t>(dependent)] == 1;
    if (can_start && (next.lane == busiest_) != is_busiest) us += next.expected_us;
  }
  return is_busiest ? -us : us;
}

int OutOfOrder::choose(const Situation& at) {
  if (known_ != &at.pass || known_nodes_ != at.pass.nodes.size()) find_busiest(at.pass);
  int best = -1;
  double most = 0.0;
  for (const int node : at.ready) {
    const double us = contribution(at, node);
    if (best >= 0 && us <= most) continue;
    best = node;
    most = us;
  }
  return best;
}

}  // namespace troika::schedule
