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
};

// The nodes stand in an order that respects what they wait for.
struct Pass {
  std::vector<Node> nodes;
};

// Chooses what an idle lane does next.
class Policy {
 public:
  virtual ~Policy() = default;
  // `ready`: nodes of this lane whose dependencies are done, ascending; never empty. `next`: the
  // first node of this lane that has not started, ready or not. Returns a ready node, or -1 to let
  // the lane wait.
  virtual int choose(const Pass& pass, std::span<const int> ready, int next) = 0;
};

// Each lane runs its nodes in the order of the pass and waits where the next one is not ready.
class InOrder : public Policy {
 public:
  int choose(const Pass&, std::span<const int> ready, int next) override {
    return ready.front() == next ? next : -1;
  }
};

struct SchedulerStatistics {
  uint64_t n_decisions = 0;
  double decision_us = 0.0;  // spent in them, all together; real time
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

 private:
  struct NodeState;
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
