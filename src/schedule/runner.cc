#include "schedule/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/system.h"

namespace troika::schedule {

// Waits for one task after the other. It outlives all of them: a lane's thread may still be on its
// way out of `finished` when the next task is submitted.
class Runner::Walk : public lanes::Completion {
 public:
  void finished(lanes::Status status) override {
    status_ = status;
    latch_.open();
  }
  lanes::Status run(lanes::Lane& lane, const Node& node, const lanes::Run& run,
                    lanes::Machine& machine) {
    latch_.close();
    lane.submit(*node.executable, run, *this);
    // If the lane works on the calling thread, the task has ended already.
    if (!latch_.is_open()) machine.wait(latch_);
    return status_;
  }

 private:
  lanes::Status status_ = lanes::Status::kPending;
  lanes::Latch latch_;
};

// The runner's state of a node. The node's lane also reports the end to it.
struct Runner::NodeState : lanes::Completion {
  void finished(lanes::Status status) override { runner->finished(node, status); }

  Runner* runner = nullptr;
  int node = 0;
  bool is_submitted = false;
  int next = -1;  // the node that the same decision submits behind this one
  double start_us = 0.0;
};

struct Runner::LaneState {
  bool is_queue() const { return depth > 1; }

  lanes::Lane* lane;
  int depth;
  int n_unfinished = 0;
  size_t n_ready = 0;
  size_t first_unsubmitted = 0;  // an index into the lane's order
  double last_end_us = 0.0;
  // A lane that is a queue holds this mutex from a decision until all that it started there is
  // submitted, so that tasks are submitted in the order of the decisions. It is locked under the
  // runner's mutex.
  std::mutex submitting;
};

void SchedulerStatistics::add(const SchedulerStatistics& other) {
  n_decisions += other.n_decisions;
  decision_us += other.decision_us;
  longest_decision_us = std::max(longest_decision_us, other.longest_decision_us);
  span_us += other.span_us;
  busy_us.resize(std::max(busy_us.size(), other.busy_us.size()), 0.0);
  for (size_t lane = 0; lane < other.busy_us.size(); ++lane) busy_us[lane] += other.busy_us[lane];
}

void throw_failed(const char* name, int block, const lanes::Lane& lane) {
  const std::string problem = lane.problem();
  throw Error(fmt::format("'{}' of block {} failed on lane '{}'{}{}.", name, block,
                          lane.info().name, problem.empty() ? "" : ": ", problem));
}

RowsBeside::RowsBeside(Trace* trace, size_t n_lanes) : first_(static_cast<int>(n_lanes)) {
  if (trace != nullptr && trace->lanes().size() > n_lanes + kReads) trace_ = trace;
}

void RowsBeside::add(TraceEvent event) const {
  if (trace_ == nullptr) return;
  event.lane += first_;
  trace_->add(event);
}

Runner::Runner(lanes::Machine& machine) : walk_(std::make_unique<Walk>()) { set_machine(machine); }

Runner::~Runner() = default;

void Runner::set_machine(lanes::Machine& machine) {
  machine_ = &machine;
  lanes_.clear();
  caller_cores_ = lanes::caller_cores(machine);
  for (lanes::Lane* lane : machine.lanes()) {
    lanes_.push_back(std::make_unique<LaneState>());
    lanes_.back()->lane = lane;
    lanes_.back()->depth = lane->info().queue_depth;
    TROIKA_ASSERT(lanes_.back()->depth >= 1);
  }
  statistics_.busy_us.resize(lanes_.size());
}

void Runner::reserve(size_t n_nodes) {
  if (nodes_.size() >= n_nodes) return;
  nodes_.resize(n_nodes);
  for (size_t i = 0; i < n_nodes; ++i) {
    nodes_[i].runner = this;
    nodes_[i].node = static_cast<int>(i);
  }
  n_missing_.resize(n_nodes);
  expected_us_.resize(n_nodes);
  node_us_.resize(n_nodes);
  run_positions_.reserve(n_nodes);  // each run has a node
  ready_.resize(n_nodes);
}

void Runner::run(const Pass& pass, std::span<const lanes::Run> runs, const RunOptions& options) {
  if (pass.n_nodes() == 0) return;
  const OnCores on_cores(caller_cores_);
  TROIKA_ASSERT(pass.n_runs() <= runs.size());
  TROIKA_ASSERT(static_cast<size_t>(pass.n_lanes()) <= lanes_.size());
  trace_ = options.trace;
  if (pass.only_lane() >= 0 && !lanes_[static_cast<size_t>(pass.only_lane())]->is_queue()) {
    walk(pass, runs);
    return;
  }
  const double start_us = machine_->clock().now_us();
  Starts starts;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    prepare(pass, runs, options.policy != nullptr ? *options.policy : in_order_);
    starts = decide();
  }
  submit_all(starts);
  machine_->wait(latch_);
  end_watch();
  // Waits until the last worker has left `finished`.
  const std::lock_guard<std::mutex> lock(mutex_);
  // Taking each lock also waits until whoever submitted the last tasks of a queue has left it.
  for (const auto& lane : lanes_) const std::lock_guard<std::mutex> left(lane->submitting);
  statistics_.span_us = machine_->clock().now_us() - start_us;
  if (options.statistics != nullptr) options.statistics->add(statistics_);
  if (watch_problem_ != nullptr) std::rethrow_exception(std::exchange(watch_problem_, nullptr));
  if (failed_ >= 0) {
    const Node& node = pass.node(failed_);
    throw_failed(node.name, node.block, *lanes_[static_cast<size_t>(node.lane)]->lane);
  }
  learn();
  if (watch_ != nullptr) watch_->after_pass(rows_beside());
}

// Tells the watch of each block of a run once.
void Runner::tell_watch(const Node& node) {
  if (watch_ == nullptr || node.block < 0) return;
  if (node.block == watched_block_ && node.run == watched_run_) return;
  watched_block_ = node.block;
  watched_run_ = node.run;
  const lanes::Run& run = runs_[static_cast<size_t>(node.run)];
  watch_->before_block(node.block, run.phase, run.n_tokens, rows_beside());
}

// Keeps what the watch throws for the thread that runs the pass: it may be told on a lane's. Other
// threads may have tasks of the same block to submit before the failure is noted under the mutex,
// and the block counts as told.
bool Runner::try_to_tell_watch(const Node& node) {
  if (watch_ == nullptr) return true;
  {
    const std::lock_guard<std::mutex> lock(problem_mutex_);
    if (watch_problem_ != nullptr) return false;
  }
  try {
    tell_watch(node);
    return true;
  } catch (...) {
    const std::lock_guard<std::mutex> lock(problem_mutex_);
    watch_problem_ = std::current_exception();
    return false;
  }
}

// May be called while something else is thrown, and so drops what the watch throws: what it left
// undone is done, or fails, before the next block.
void Runner::end_watch() noexcept {
  if (std::exchange(watched_block_, -1) < 0) return;
  try {
    watch_->after_blocks(rows_beside());
  } catch (const std::exception&) {
  }
}

void Runner::walk(const Pass& pass, std::span<const lanes::Run> runs) {
  runs_ = runs;
  // Tells the watch of the end, even if something is thrown on the way.
  struct End {
    Runner& runner;
    ~End() { runner.end_watch(); }
  } const end{*this};
  lanes::Lane& lane = *lanes_[static_cast<size_t>(pass.only_lane())]->lane;
  for (const Node& node : pass.nodes()) {
    const lanes::Run& run = runs[static_cast<size_t>(node.run)];
    tell_watch(node);
    const double start_us = trace_ != nullptr ? machine_->clock().now_us() : 0.0;
    const lanes::Status status = walk_->run(lane, node, run, *machine_);
    if (trace_ != nullptr) {
      trace_->add({node.lane, node.name, node.block, run.n_tokens,
                   std::max(start_us, lane.started_us()), machine_->clock().now_us(),
                   run.phase == plan::Phase::kPrompt});
    }
    if (status == lanes::Status::kFailed) throw_failed(node.name, node.block, lane);
  }
  if (watch_ != nullptr) watch_->after_pass(rows_beside());
}

void Runner::prepare(const Pass& pass, std::span<const lanes::Run> runs, Policy& policy) {
  reserve(pass.n_nodes());
  pass_ = &pass;
  runs_ = runs;
  policy_ = &policy;
  n_running_ = 0;
  n_left_ = static_cast<int>(pass.n_nodes());
  failed_ = -1;
  latch_.close();
  statistics_.n_decisions = 0;
  statistics_.decision_us = statistics_.longest_decision_us = 0.0;
  std::fill(statistics_.busy_us.begin(), statistics_.busy_us.end(), 0.0);
  std::copy(pass.n_waits().begin(), pass.n_waits().end(), n_missing_.begin());
  for (const auto& lane : lanes_) {
    lane->n_unfinished = 0;
    lane->n_ready = lane->first_unsubmitted = 0;
    lane->last_end_us = 0.0;
  }
  for (size_t i = 0; i < pass.n_nodes(); ++i) {
    const Node& node = pass.nodes()[i];
    nodes_[i].is_submitted = false;
    if (!node.waits_for.empty()) continue;
    const auto lane = static_cast<size_t>(node.lane);
    ready_[pass.n_before(node.lane) + lanes_[lane]->n_ready++] = static_cast<int>(i);
  }
  run_positions_.clear();
  for (const lanes::Run& run : runs.first(pass.n_runs())) {
    run_positions_.push_back(n_positions(run));
  }
  if (policy.wants_times()) {
    for (size_t i = 0; i < pass.n_nodes(); ++i) {
      const Node& node = pass.nodes()[i];
      const TaskTime unknown;
      const TaskTime& time = node.time != nullptr ? *node.time : unknown;
      expected_us_[i] = time.us(n_units(node), node.operations);
    }
  }
  policy.begin(pass, {expected_us_.data(), policy.wants_times() ? pass.n_nodes() : 0});
}

double Runner::n_units(const Node& node) const {
  return node.is_dynamic ? run_positions_[static_cast<size_t>(node.run)] : 1.0;
}

void Runner::learn() const {
  for (size_t i = 0; i < pass_->n_nodes(); ++i) {
    const Node& node = pass_->nodes()[i];
    if (node.time == nullptr) continue;
    node.time->learn(n_units(node), node_us_[i]);
  }
}

// Decides what lanes do next. Queues come first, because they return at once, and a lane that works
// on the calling thread does not.
Runner::Starts Runner::decide() {
  const double begin = RealClock().now_us();
  Starts starts;
  for (const bool is_queue : {true, false}) {
    for (int lane = 0; lane < pass_->n_lanes(); ++lane) {
      if (lanes_[static_cast<size_t>(lane)]->is_queue() == is_queue) decide_on(lane, &starts);
    }
  }
  ++statistics_.n_decisions;
  const double us = RealClock().now_us() - begin;
  statistics_.decision_us += us;
  statistics_.longest_decision_us = std::max(statistics_.longest_decision_us, us);
  // If a policy let every lane wait while nothing runs, it would wait for ever.
  TROIKA_ASSERT(n_running_ > 0 || n_left_ == 0 || failed_ >= 0);
  return starts;
}

void Runner::decide_on(int index, Starts* starts) {
  LaneState& lane = *lanes_[static_cast<size_t>(index)];
  const std::span<const int> order = pass_->order(index);
  const int last_before = starts->last;
  while (failed_ < 0 && lane.n_unfinished < lane.depth && lane.n_ready > 0) {
    while (nodes_[static_cast<size_t>(order[lane.first_unsubmitted])].is_submitted) {
      ++lane.first_unsubmitted;
    }
    const std::span<const int> ready =
        std::span<const int>(ready_).subspan(pass_->n_before(index), lane.n_ready);
    const int chosen = policy_->choose({*pass_,
                                        index,
                                        ready,
                                        order[lane.first_unsubmitted],
                                        {n_missing_.data(), pass_->n_nodes()},
                                        {expected_us_.data(), pass_->n_nodes()}});
    if (chosen < 0) break;
    take(chosen, starts);
  }
  if (lane.is_queue() && starts->last != last_before) lane.submitting.lock();
}

void Runner::take(int index, Starts* starts) {
  const Node& node = pass_->node(index);
  LaneState& lane = *lanes_[static_cast<size_t>(node.lane)];
  const auto begin = ready_.begin() + static_cast<ptrdiff_t>(pass_->n_before(node.lane));
  const auto end = begin + static_cast<ptrdiff_t>(lane.n_ready);
  const auto found = std::lower_bound(begin, end, index);
  TROIKA_ASSERT(found != end && *found == index);
  std::copy(found + 1, end, found);
  --lane.n_ready;
  ++lane.n_unfinished;
  ++n_running_;
  NodeState& state = nodes_[static_cast<size_t>(index)];
  state.is_submitted = true;
  state.next = -1;
  (starts->first < 0 ? starts->first : nodes_[static_cast<size_t>(starts->last)].next) = index;
  starts->last = index;
  if (!lane.is_queue()) return;
  // Nodes that stand behind this one in its queue cannot run too early, so they need not wait for
  // its end.
  for (const int dependent : pass_->dependents(index)) {
    if (pass_->node(dependent).lane == node.lane) note_one_less(dependent);
  }
}

// Counts that one node less stands in the way of this one.
void Runner::note_one_less(int index) {
  if (--n_missing_[static_cast<size_t>(index)] > 0) return;
  const int lane = pass_->node(index).lane;
  size_t& n_ready = lanes_[static_cast<size_t>(lane)]->n_ready;
  const auto begin = ready_.begin() + static_cast<ptrdiff_t>(pass_->n_before(lane));
  const auto end = begin + static_cast<ptrdiff_t>(n_ready);
  const auto place = std::lower_bound(begin, end, index);
  std::copy_backward(place, end, end + 1);
  *place = index;
  ++n_ready;
}

void Runner::note_end(int index, lanes::Status status) {
  const auto i = static_cast<size_t>(index);
  const Node& node = pass_->node(index);
  LaneState& lane = *lanes_[static_cast<size_t>(node.lane)];
  const double now_us = machine_->clock().now_us();
  // In a queue a task begins when the task before it has ended.
  const double start_us = std::max({nodes_[i].start_us, lane.last_end_us, lane.lane->started_us()});
  lane.last_end_us = now_us;
  node_us_[i] = now_us - start_us;
  statistics_.busy_us[static_cast<size_t>(node.lane)] += node_us_[i];
  if (trace_ != nullptr) {
    const lanes::Run& run = runs_[static_cast<size_t>(node.run)];
    trace_->add({node.lane, node.name, node.block, run.n_tokens, start_us, now_us,
                 run.phase == plan::Phase::kPrompt});
  }
  --lane.n_unfinished;
  --n_running_;
  --n_left_;
  if (status == lanes::Status::kFailed && failed_ < 0) failed_ = index;
  for (const int dependent : pass_->dependents(index)) {
    // A node behind this one in the same queue of a lane was counted already when this one was
    // submitted.
    if (lane.is_queue() && pass_->node(dependent).lane == node.lane) continue;
    note_one_less(dependent);
  }
}

void Runner::finished(int index, lanes::Status status) {
  Starts starts;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    note_end(index, status);
    starts = decide();
    // The latch is opened under the mutex, because `run` takes the mutex before it returns.
    if (n_running_ == 0) latch_.open();
  }
  // If the pass has ended there is nothing to submit, and no member may be touched any more.
  submit_all(starts);
}

void Runner::submit_all(Starts starts) {
  bool has_failed = false;  // says that the nodes' block is not there
  int failed = -1;          // the first of the nodes that this is said of
  for (int index = starts.first; index >= 0;) {
    NodeState& state = nodes_[static_cast<size_t>(index)];
    const Node& node = pass_->node(index);
    LaneState& lane = *lanes_[static_cast<size_t>(node.lane)];
    // The next node is read first, because the pass may end as soon as its last node is submitted;
    // it cannot while a queue's mutex is held.
    index = state.next;
    const bool is_last_of_lane = index < 0 || pass_->node(index).lane != node.lane;
    const bool unlocks = lane.is_queue() && is_last_of_lane;
    has_failed = has_failed || !try_to_tell_watch(node);
    state.start_us = machine_->clock().now_us();
    if (has_failed) {
      state.next = failed;
      failed = state.node;
    } else {
      lane.lane->submit(*node.executable, runs_[static_cast<size_t>(node.run)], state);
    }
    if (unlocks) lane.submitting.unlock();
  }
  // What ends takes the walk's mutex, which `decide_on` has when it takes a queue's: so nothing
  // ends here before all queues are given back. The pass goes on until the last of these has ended.
  while (failed >= 0) {
    const int index = failed;
    failed = nodes_[static_cast<size_t>(index)].next;
    finished(index, lanes::Status::kFailed);
  }
}

}  // namespace troika::schedule
