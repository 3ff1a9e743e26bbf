#include "schedule/out_of_order.h"

namespace troika::schedule {

void OutOfOrder::begin(const Pass& pass, std::span<const double> expected_us) {
  double most = -1.0;
  for (int lane = 0; lane < pass.n_lanes(); ++lane) {
    double us = 0.0;
    for (const int node : pass.order(lane)) us += expected_us[static_cast<size_t>(node)];
    if (us <= most) continue;
    busiest_ = lane;
    most = us;
  }
}

double OutOfOrder::contribution(const Situation& at, int node) const {
  const bool is_busiest = at.lane == busiest_;
  double us = 0.0;
  for (const int dependent : at.pass.dependents(node)) {
    const auto next = static_cast<size_t>(dependent);
    const bool can_start = at.n_missing[next] == 1;
    const bool is_for_busiest = at.pass.node(dependent).lane == busiest_;
    if (can_start && is_for_busiest != is_busiest) us += at.expected_us[next];
  }
  return is_busiest ? -us : us;
}

int OutOfOrder::choose(const Situation& at) {
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
