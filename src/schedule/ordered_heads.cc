#include "schedule/ordered_heads.h"

#include <algorithm>
#include <map>

#include "attention/head_order.h"
#include "base/clock.h"
#include "base/error.h"

namespace troika::schedule {
namespace {

using lanes::Role;

// The nodes of one head that follow its estimate.
struct Head {
  int select = 0;
  int exact = 0;
};

// Returns the node of that role which waits for another node of the same chunk. There is one; nodes
// of other chunks may wait, too, for the keys.
int next_of(const Pass& pass, int node, Role role) {
  for (const int dependent : pass.dependents(node)) {
    const Node& next = pass.node(dependent);
    if (next.role == role && next.run == pass.node(node).run) return dependent;
  }
  TROIKA_ASSERT(false);
  return -1;
}

std::vector<Head> heads_behind(const Pass& pass, int estimate) {
  std::vector<Head> heads;
  for (const int dependent : pass.dependents(estimate)) {
    const Node& next = pass.node(dependent);
    if (next.role != Role::kSelect || next.run != pass.node(estimate).run) continue;
    heads.push_back({dependent, next_of(pass, dependent, Role::kExact)});
  }
  return heads;
}

}  // namespace

void OrderedHeads::begin(const Pass& pass, std::span<const double> expected_us) {
  pipelines_.assign(pass.n_nodes(), -1);
  ranks_.assign(pass.n_nodes(), 0);
  // Each list holds the estimates of one chunk and block.
  std::map<std::pair<int, int>, std::vector<int>> estimates;
  for (size_t i = 0; i < pass.n_nodes(); ++i) {
    const Node& node = pass.nodes()[i];
    if (node.role == Role::kEstimate) {
      estimates[{node.run, node.block}].push_back(static_cast<int>(i));
    }
  }
  int pipeline = 0;
  for (const auto& [place, nodes] : estimates) {
    for (const int estimate : nodes) {
      pipelines_[static_cast<size_t>(estimate)] = pipeline;
      for (const Head& head : heads_behind(pass, estimate)) {
        pipelines_[static_cast<size_t>(head.select)] = pipeline;
        pipelines_[static_cast<size_t>(head.exact)] = pipeline;
      }
    }
    const double start_us = RealClock().now_us();
    plan(pass, nodes, expected_us);
    planning_.add(RealClock().now_us() - start_us);
    ++pipeline;
  }
  first_.assign(static_cast<size_t>(pipeline), -1);
  candidates_.reserve(pass.n_nodes());
  within_->begin(pass, expected_us);
}

// Plans one pipeline. Where one lane both selects and computes, selection and exact part of a head
// are a single stage (K27).
void OrderedHeads::plan(const Pass& pass, std::span<const int> estimates,
                        std::span<const double> expected_us) {
  std::vector<attention::FusedHeads> groups;
  std::vector<attention::HeadTimes> times;
  std::vector<Head> heads;
  for (const int estimate : estimates) {
    attention::FusedHeads& group = groups.emplace_back();
    group.npu = expected_us[static_cast<size_t>(estimate)];
    for (const Head& head : heads_behind(pass, estimate)) {
      const double select_us = expected_us[static_cast<size_t>(head.select)];
      const double exact_us = expected_us[static_cast<size_t>(head.exact)];
      const bool is_one_stage = pass.node(head.select).lane == pass.node(head.exact).lane;
      group.heads.push_back(static_cast<int>(heads.size()));
      times.push_back(is_one_stage ? attention::HeadTimes{0.0, select_us + exact_us}
                                   : attention::HeadTimes{select_us, exact_us});
      heads.push_back(head);
    }
  }
  const attention::HeadOrder order = attention::planned_order(groups, times);
  int rank = 0;
  for (const int group : order.groups) {
    ranks_[static_cast<size_t>(estimates[static_cast<size_t>(group)])] = rank++;
  }
  for (const int head : order.heads) {
    const Head& nodes = heads[static_cast<size_t>(head)];
    ranks_[static_cast<size_t>(nodes.select)] = rank++;
    ranks_[static_cast<size_t>(nodes.exact)] = rank++;
  }
}

int OrderedHeads::choose(const Situation& at) {
  candidates_.clear();
  for (const int node : at.ready) {
    const int pipeline = pipelines_[static_cast<size_t>(node)];
    if (pipeline < 0) {
      candidates_.push_back(node);
      continue;
    }
    int& first = first_[static_cast<size_t>(pipeline)];
    if (first < 0) {
      first = static_cast<int>(candidates_.size());
      candidates_.push_back(node);
      continue;
    }
    int& other = candidates_[static_cast<size_t>(first)];
    const bool is_before = ranks_[static_cast<size_t>(node)] < ranks_[static_cast<size_t>(other)];
    if (is_before) other = node;
  }
  for (const int node : candidates_) {
    const int pipeline = pipelines_[static_cast<size_t>(node)];
    if (pipeline >= 0) first_[static_cast<size_t>(pipeline)] = -1;
  }
  // If all candidates are in one pipeline, nothing is left to decide.
  const int only = candidates_.size() == 1 ? candidates_[0] : -1;
  if (only >= 0 && pipelines_[static_cast<size_t>(only)] >= 0) return only;
  std::sort(candidates_.begin(), candidates_.end());
  return within_->choose({at.pass, at.lane, candidates_, at.next, at.n_missing, at.expected_us});
}

}  // namespace troika::schedule
