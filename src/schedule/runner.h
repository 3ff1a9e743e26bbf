// Runs passes on the lanes of a machine, those of prompts and those of steps. It does not know what
// time is: it is told that a task finished and says what comes next. There is no thread of its own;
// the worker that finishes decides. Where one lane has all tasks nothing is decided: they are
// walked through.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/trace.h"
#include "lanes/machine.h"
#include "schedule/pass.h"
#include "schedule/policy.h"

namespace troika::schedule {

// Told where a pass stands: of what goes by blocks, as their layouts do (D1).
class BlockWatch {
 public:
  virtual ~BlockWatch() = default;
  // A pass of n_tokens is at this block; its tasks are submitted when this returns. Throws Error
  // where they cannot be.
  virtual void before_block(int block, plan::Phase phase, int n_tokens) = 0;
  // The last block has ended, or a task has failed.
  virtual void after_blocks() = 0;
  // All tasks of a pass have ended well.
  virtual void after_pass() {}
};

// Whoever changes the layouts of blocks: also told of prompts before their passes.
class LayoutWatch : public BlockWatch {
 public:
  // A prompt, or what is left of it: so many tokens of Phase::kPrompt, in chunks of so many.
  virtual void plan_prompt(int n_tokens, int chunk, bool is_first) = 0;
  // Records blocks and loads in rows `row` and `row` + 1 from now on; null ends that.
  virtual void set_trace(Trace* trace, int row) = 0;
};

// What was done over one or several passes in which something was decided.
struct SchedulerStatistics {
  uint64_t n_decisions = 0;
  double decision_us = 0.0;  // spent in them, all together; real time
  double longest_decision_us = 0.0;
  double span_us = 0.0;         // of the machine's time, from the first start to the last end
  std::vector<double> busy_us;  // of each lane in that time

  void add(const SchedulerStatistics& other);
};

struct RunOptions {
  Policy* policy = nullptr;                   // null: in order
  SchedulerStatistics* statistics = nullptr;  // to be added to; null: nobody asks
  Trace* trace = nullptr;                     // records every task; null: nobody asks
};

class Runner {
 public:
  // The machine must outlive the runner, or another be set before.
  explicit Runner(lanes::Machine& machine);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Room for passes of so many nodes. Running allocates only where it has to make room.
  void reserve(size_t n_nodes);

  // Runs node i of the pass with runs[node.run], and returns when all have ended. Throws Error
  // where one failed; nodes that did not wait for it may have run. The times of kinds of tasks
  // learn what was taken on several lanes. REQUIRES: called from one thread at a time.
  void run(const Pass& pass, std::span<const lanes::Run> runs, const RunOptions& options = {});
  void run(const Pass& pass, const lanes::Run& run, const RunOptions& options = {}) {
    this->run(pass, {&run, 1}, options);
  }

  lanes::Machine& machine() const { return *machine_; }
  // Tasks go to the lanes through this one from now on. Nodes name its lanes by their places.
  void set_machine(lanes::Machine& machine);
  // Told of the blocks of every pass from now on; null ends that. REQUIRES: tasks of a block begin
  // when those of the block before have ended, as on one lane, which is no queue, or on several
  // with one chunk in flight; on several lanes `before_block` throws nothing.
  void set_watch(BlockWatch* watch) { watch_ = watch; }

 private:
  struct NodeState;
  struct LaneState;
  class Walk;
  // Nodes to be submitted, linked through their states: nothing is allocated for them.
  struct Starts {
    int first = -1;
    int last = -1;
  };

  void walk(const Pass& pass, std::span<const lanes::Run> runs);
  void prepare(const Pass& pass, std::span<const lanes::Run> runs, Policy& policy);
  void learn() const;
  void finished(int node, lanes::Status status);
  // These REQUIRE the mutex.
  Starts decide();
  void decide_on(int lane, Starts* starts);
  void take(int node, Starts* starts);
  void note_end(int node, lanes::Status status);
  void note_one_less(int node);

  void submit_all(Starts starts);
  void tell_watch(const Node& node);
  void end_watch();

  lanes::Machine* machine_ = nullptr;
  BlockWatch* watch_ = nullptr;
  int watched_block_ = -1, watched_run_ = 0;  // that it was told of last
  InOrder in_order_;
  std::unique_ptr<Walk> walk_;

  // The state of the present pass, reused by the next; lists of nodes are as long as the longest
  // pass was.
  std::mutex mutex_;
  const Pass* pass_ = nullptr;
  std::span<const lanes::Run> runs_;
  Policy* policy_ = nullptr;
  Trace* trace_ = nullptr;
  SchedulerStatistics statistics_;
  std::vector<NodeState> nodes_;
  std::vector<int> n_missing_;  // of each node, as `Situation` has it
  std::vector<double> expected_us_;
  std::vector<double> node_us_;
  // Nodes of each lane that are ready, ascending. Those of a lane begin where its nodes do in the
  // order of the pass: there is room for all of them.
  std::vector<int> ready_;
  std::vector<std::unique_ptr<LaneState>> lanes_;
  int n_running_ = 0;  // submitted, or about to be
  int n_left_ = 0;
  int failed_ = -1;
  lanes::Latch latch_;
};

// Throws the Error that says that a task failed, and why if the lane knows.
[[noreturn]] void throw_failed(const char* name, int block, const lanes::Lane& lane);

}  // namespace troika::schedule
