// Runs a pass over several lanes: tasks and what they wait for. It does not know what time is: it
// is told that a task finished and says what to start next. There is no scheduler thread; the
// worker that finishes decides.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/trace.h"
#include "lanes/machine.h"

namespace troika::schedule {

struct Node {
  int lane;                             // index into the machine's lanes
  const lanes::Executable* executable;  // built by that lane
  const lanes::Run* run;
  const char* name = "";  // for the trace
  int block = -1;
  std::vector<int> waits_for;  // earlier nodes
  double expected_us = 0.0;    // for policies that choose by it
};

// The nodes stand in an order that respects what they wait for.
struct Pass {
  std::vector<Node> nodes;
};

// Where a pass stands when a lane is free.
struct Situation {
  const Pass& pass;
  int lane;
  std::span<const int> ready;  // nodes of this lane whose dependencies are done, ascending
  int next;                    // the first node of this lane that has not started, ready or not
  // Of every node: which wait for it, and how many it waits for itself.
  std::span<const std::vector<int>> dependents;
  std::span<const int> n_missing;
};

// Chooses what an idle lane does next.
class Policy {
 public:
  virtual ~Policy() = default;
  // Returns a ready node, or -1 to let the lane wait. REQUIRES: one is ready.
  virtual int choose(const Situation& situation) = 0;
};

// Each lane runs its nodes in the order of the pass and waits where the next one is not ready.
class InOrder : public Policy {
 public:
  int choose(const Situation& situation) override {
    return situation.ready.front() == situation.next ? situation.next : -1;
  }
};

// What was done over one or several passes.
struct SchedulerStatistics {
  uint64_t n_decisions = 0;
  double decision_us = 0.0;  // spent in them, all together; real time
  double longest_decision_us = 0.0;
  double span_us = 0.0;         // of the machine's time, from the first start to the last end
  std::vector<double> busy_us;  // of each lane in that time

  void add(const SchedulerStatistics& other);
};

class Scheduler {
 public:
  // All must outlive the scheduler; `trace` may be null.
  Scheduler(lanes::Machine& machine, Policy& policy, Trace* trace = nullptr);
  ~Scheduler();

  // Returns when every node has run. Throws Error where one failed; nodes that did not depend on it
  // may have run. REQUIRES: called from one thread at a time.
  void run(const Pass& pass);

  const SchedulerStatistics& statistics() const { return statistics_; }
  // How long each node of the last pass took. REQUIRES: the pass ended without an error.
  std::span<const double> node_us() const { return node_us_; }

 private:
  struct NodeState;
  void prepare(const Pass& pass, lanes::Latch* latch);
  void finished(int node, lanes::Status status);
  // Both REQUIRE the mutex.
  void decide(std::vector<int>* starts);
  void note_end(int node, lanes::Status status);
  void start_all(const std::vector<int>& starts);

  lanes::Machine& machine_;
  Policy& policy_;
  Trace* trace_;
  SchedulerStatistics statistics_;

  std::mutex mutex_;
  const Pass* pass_ = nullptr;
  std::unique_ptr<NodeState[]> states_;
  std::vector<std::vector<int>> dependents_;
  std::vector<int> n_missing_;  // dependencies of each node that are not done
  std::vector<double> node_us_;
  std::vector<std::vector<int>> ready_;  // of each lane, ascending
  std::vector<std::vector<int>> order_;  // nodes of each lane
  std::vector<size_t> first_unstarted_;  // index into order_
  std::vector<char> lane_is_busy_;
  int n_running_ = 0;
  int n_left_ = 0;
  int failed_ = -1;
  lanes::Latch* latch_ = nullptr;
};

}  // namespace troika::schedule
