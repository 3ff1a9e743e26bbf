// Runs passes on the lanes of a machine, those of prompts and those of steps. It waits for no time:
// it is told that a task has finished, and says what comes next. It reads the machine's clock for
// traces, statistics and policies alone. It has no thread of its own; the worker that finishes a
// task decides. Where one lane has all tasks, nothing is decided: they run
// one after the other.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/trace.h"
#include "lanes/machine.h"
#include "schedule/pass.h"
#include "schedule/policy.h"

namespace troika::schedule {

// Records what goes on beside the tasks of a pass, in the rows of its trace behind those of lanes.
class RowsBeside {
 public:
  static constexpr int kBlocks = 0, kReads = 1;

  RowsBeside() = default;  // records nothing
  // Records nothing where the trace is null, or has not both rows behind those of n_lanes lanes.
  RowsBeside(Trace* trace, size_t n_lanes);

  bool are_recorded() const { return trace_ != nullptr; }
  // Records an event whose `lane` is one of the rows above.
  void add(TraceEvent event) const;

 private:
  Trace* trace_ = nullptr;
  int first_ = 0;
};

// Is told where a pass stands, for things that change block by block, as layouts do (D1). What it
// records of the pass goes into `rows`.
class BlockWatch {
 public:
  virtual ~BlockWatch() = default;
  // Is told that a pass of n_tokens has come to this block, whose tasks are submitted when this
  // returns. Throws Error where they cannot be submitted.
  virtual void before_block(int block, plan::Phase phase, int n_tokens, const RowsBeside& rows) = 0;
  // Is told that the last block has ended, or a task has failed. What it throws is lost, so only
  // what may fail again, or be left out, may fail here.
  virtual void after_blocks(const RowsBeside& rows) = 0;
  // Is told that all tasks of a pass have ended well.
  virtual void after_pass(const RowsBeside& /*rows*/) {}
};

// Is also told of prompts before their passes, so that it can read ahead or change layouts in time.
class PromptWatch : public BlockWatch {
 public:
  // Is told of a prompt, or of what is left of one: n_tokens tokens of Phase::kPrompt, in chunks of
  // `chunk`.
  virtual void plan_prompt(int n_tokens, int chunk, bool is_first) = 0;
};

// Adds up what was done in passes in which something was decided.
struct SchedulerStatistics {
  uint64_t n_decisions = 0;
  double decision_us = 0.0;  // the real time of all decisions together
  double longest_decision_us = 0.0;
  double span_us = 0.0;         // the machine's time from the first start to the last end
  std::vector<double> busy_us;  // how long each lane was busy in that time

  void add(const SchedulerStatistics& other);
};

struct RunOptions {
  Policy* policy = nullptr;                   // null: tasks run in order
  SchedulerStatistics* statistics = nullptr;  // is added to; null: nobody asks
  Trace* trace = nullptr;                     // records every task; null: nobody asks
};

class Runner {
 public:
  // The machine must outlive the runner, unless another one is set before.
  explicit Runner(lanes::Machine& machine);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Makes room for passes of n_nodes nodes. Running allocates only where it has to make more room.
  void reserve(size_t n_nodes);

  // Runs node i of the pass with runs[node.run], and returns when all nodes have ended. Throws
  // Error where a node failed; nodes that did not wait for it may have run. On several lanes, the
  // nodes' `time` learns what each took. REQUIRES: called from one thread at a time.
  void run(const Pass& pass, std::span<const lanes::Run> runs, const RunOptions& options = {});
  void run(const Pass& pass, const lanes::Run& run, const RunOptions& options = {}) {
    this->run(pass, {&run, 1}, options);
  }

  lanes::Machine& machine() const { return *machine_; }
  // Sends tasks to the lanes of this machine from now on. Nodes name lanes by their places.
  void set_machine(lanes::Machine& machine);
  // Tells `watch` of the blocks of every pass from now on; null ends that. REQUIRES: tasks of a
  // block begin when those of the block before have ended. This holds on one lane that is no queue,
  // and on several lanes with one chunk in flight.
  void set_watch(BlockWatch* watch) { watch_ = watch; }

 private:
  struct NodeState;
  struct LaneState;
  class Walk;
  // Nodes that will be submitted, linked through their states, so that nothing is allocated for
  // them.
  struct Starts {
    int first = -1;
    int last = -1;
  };

  void walk(const Pass& pass, std::span<const lanes::Run> runs);
  void prepare(const Pass& pass, std::span<const lanes::Run> runs, Policy& policy);
  // Returns the number to which a node's time is in proportion in the present pass.
  double n_units(const Node& node) const;
  void learn() const;
  void finished(int node, lanes::Status status);
  // These functions REQUIRE the mutex.
  Starts decide();
  void decide_on(int lane, Starts* starts);
  void take(int node, Starts* starts);
  void note_end(int node, lanes::Status status);
  void note_one_less(int node);

  void submit_all(Starts starts);
  RowsBeside rows_beside() const { return {trace_, lanes_.size()}; }
  void tell_watch(const Node& node);
  // Returns false where the block cannot be computed.
  bool try_to_tell_watch(const Node& node);
  void end_watch() noexcept;

  lanes::Machine* machine_ = nullptr;
  BlockWatch* watch_ = nullptr;
  int watched_block_ = -1, watched_run_ = 0;  // what the watch was told last
  InOrder in_order_;
  std::unique_ptr<Walk> walk_;

  // The state of the present pass, whose memory the next one uses again; lists of nodes are as long
  // as the longest pass was.
  std::mutex mutex_;
  std::mutex problem_mutex_;  // of watch_problem_; a queue's mutex may be held when it is taken
  const Pass* pass_ = nullptr;
  std::span<const lanes::Run> runs_;
  Policy* policy_ = nullptr;
  Trace* trace_ = nullptr;
  SchedulerStatistics statistics_;
  std::vector<NodeState> nodes_;
  std::vector<int> n_missing_;  // one entry for each node, as in `Situation`
  std::vector<double> expected_us_;
  std::vector<double> node_us_;
  std::vector<double> run_positions_;  // one entry for each run, see n_positions
  // The ready nodes of each lane, ascending. A lane's part begins where its nodes begin in the
  // order of the pass, so there is room for all of them.
  std::vector<int> ready_;
  std::vector<std::unique_ptr<LaneState>> lanes_;
  std::span<const int> caller_cores_;  // keep the thread that runs a pass; none: it runs anywhere
  int n_running_ = 0;                  // counts nodes that are submitted, or about to be
  int n_left_ = 0;
  int failed_ = -1;
  std::exception_ptr watch_problem_;  // what the watch threw
  lanes::Latch latch_;
};

// Throws an Error that says that a task failed, and why, if the lane knows.
[[noreturn]] void throw_failed(const char* name, int block, const lanes::Lane& lane);

}  // namespace troika::schedule
