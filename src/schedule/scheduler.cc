#include "schedule/scheduler.h"

#include <algorithm>

#include "base/error.h"
#include "schedule/run.h"

namespace troika::schedule {

// What the scheduler keeps for each node; also what its lane reports to.
struct Scheduler::NodeState : lanes::Completion {
  void finished(lanes::Status status) override { scheduler->finished(node, status); }

  Scheduler* scheduler = nullptr;
  int node = 0;
  bool started = false;
  double start_us = 0.0;
};

Scheduler::Scheduler(lanes::Machine& machine, Policy& policy, Trace* trace)
    : machine_(machine), policy_(policy), trace_(trace) {}

Scheduler::~Scheduler() = default;

void SchedulerStatistics::add(const SchedulerStatistics& other) {
  n_decisions += other.n_decisions;
  decision_us += other.decision_us;
  longest_decision_us = std::max(longest_decision_us, other.longest_decision_us);
  span_us += other.span_us;
  busy_us.resize(std::max(busy_us.size(), other.busy_us.size()), 0.0);
  for (size_t lane = 0; lane < other.busy_us.size(); ++lane) busy_us[lane] += other.busy_us[lane];
}

void Scheduler::prepare(const Pass& pass, lanes::Latch* latch) {
  const size_t n_nodes = pass.nodes.size();
  const size_t n_lanes = machine_.lanes().size();
  pass_ = &pass;
  latch_ = latch;
  failed_ = -1;
  n_left_ = static_cast<int>(n_nodes);
  states_ = std::make_unique<NodeState[]>(n_nodes);
  dependents_.assign(n_nodes, {});
  n_missing_.assign(n_nodes, 0);
  node_us_.assign(n_nodes, 0.0);
  ready_.assign(n_lanes, {});
  order_.assign(n_lanes, {});
  first_unstarted_.assign(n_lanes, 0);
  lane_is_busy_.assign(n_lanes, 0);
  statistics_.busy_us.resize(n_lanes, 0.0);
  for (size_t i = 0; i < n_nodes; ++i) {
    const Node& node = pass.nodes[i];
    TROIKA_ASSERT(node.lane >= 0 && static_cast<size_t>(node.lane) < n_lanes);
    states_[i].scheduler = this;
    states_[i].node = static_cast<int>(i);
    n_missing_[i] = static_cast<int>(node.waits_for.size());
    for (const int other : node.waits_for) {
      TROIKA_ASSERT(other >= 0 && other < static_cast<int>(i));
      dependents_[static_cast<size_t>(other)].push_back(static_cast<int>(i));
    }
    const auto lane = static_cast<size_t>(node.lane);
    order_[lane].push_back(static_cast<int>(i));
    if (node.waits_for.empty()) ready_[lane].push_back(static_cast<int>(i));
  }
}

void Scheduler::run(const Pass& pass) {
  if (pass.nodes.empty()) return;
  lanes::Latch latch;
  std::vector<int> starts;
  const double start_us = machine_.clock().now_us();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    prepare(pass, &latch);
    decide(&starts);
  }
  start_all(starts);
  machine_.wait(latch);
  const std::lock_guard<std::mutex> lock(mutex_);  // the last worker has left `finished`
  statistics_.span_us += machine_.clock().now_us() - start_us;
  if (failed_ >= 0) {
    const Node& node = pass.nodes[static_cast<size_t>(failed_)];
    throw_failed(node.name, node.block, *machine_.lanes()[static_cast<size_t>(node.lane)]);
  }
}

void Scheduler::decide(std::vector<int>* starts) {
  const double begin = RealClock().now_us();
  for (size_t lane = 0; lane < ready_.size(); ++lane) {
    if (lane_is_busy_[lane] || ready_[lane].empty() || failed_ >= 0) continue;
    const std::vector<int>& order = order_[lane];
    size_t& first = first_unstarted_[lane];
    while (states_[static_cast<size_t>(order[first])].started) ++first;
    const int chosen = policy_.choose(
        {*pass_, static_cast<int>(lane), ready_[lane], order[first], dependents_, n_missing_});
    if (chosen < 0) continue;
    const auto found = std::lower_bound(ready_[lane].begin(), ready_[lane].end(), chosen);
    TROIKA_ASSERT(found != ready_[lane].end() && *found == chosen);
    ready_[lane].erase(found);
    lane_is_busy_[lane] = 1;
    states_[static_cast<size_t>(chosen)].started = true;
    ++n_running_;
    starts->push_back(chosen);
  }
  ++statistics_.n_decisions;
  const double us = RealClock().now_us() - begin;
  statistics_.decision_us += us;
  statistics_.longest_decision_us = std::max(statistics_.longest_decision_us, us);
  // A policy that lets every lane wait while nothing runs would wait for ever.
  TROIKA_ASSERT(n_running_ > 0 || n_left_ == 0 || failed_ >= 0);
}

void Scheduler::note_end(int index, lanes::Status status) {
  const auto node = static_cast<size_t>(index);
  const Node& ended = pass_->nodes[node];
  const double now_us = machine_.clock().now_us();
  node_us_[node] = now_us - states_[node].start_us;
  statistics_.busy_us[static_cast<size_t>(ended.lane)] += node_us_[node];
  if (trace_ != nullptr) {
    trace_->add(
        {ended.lane, ended.name, ended.block, ended.run->n_tokens, states_[node].start_us, now_us});
  }
  lane_is_busy_[static_cast<size_t>(ended.lane)] = 0;
  --n_running_;
  --n_left_;
  if (status == lanes::Status::kFailed && failed_ < 0) failed_ = index;
  for (const int dependent : dependents_[node]) {
    if (--n_missing_[static_cast<size_t>(dependent)] > 0) continue;
    std::vector<int>& ready =
        ready_[static_cast<size_t>(pass_->nodes[static_cast<size_t>(dependent)].lane)];
    ready.insert(std::lower_bound(ready.begin(), ready.end(), dependent), dependent);
  }
}

void Scheduler::finished(int node, lanes::Status status) {
  std::vector<int> starts;
  lanes::Latch* ended = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    note_end(node, status);
    decide(&starts);
    if (n_running_ == 0) ended = latch_;
    // Opened under the mutex: `run` takes it before it leaves, so the latch outlives this call.
    if (ended != nullptr) ended->open();
  }
  if (ended == nullptr) start_all(starts);
}

void Scheduler::start_all(const std::vector<int>& starts) {
  for (const int index : starts) {
    const auto i = static_cast<size_t>(index);
    const Node& node = pass_->nodes[i];
    states_[i].start_us = machine_.clock().now_us();
    machine_.lanes()[static_cast<size_t>(node.lane)]->submit(*node.executable, *node.run,
                                                             states_[i]);
  }
}

}  // namespace troika::schedule
