#include "schedule/run.h"

#include <fmt/format.h>

#include "base/error.h"

namespace troika::schedule {
namespace {

class Waiting : public lanes::Completion {
 public:
  void finished(lanes::Status status) override {
    status_ = status;
    latch_.open();
  }
  lanes::Status wait(lanes::Machine& machine) {
    // A lane that works on the calling thread has ended already.
    if (!latch_.is_open()) machine.wait(latch_);
    return status_;
  }

 private:
  lanes::Status status_ = lanes::Status::kPending;
  lanes::Latch latch_;
};

// Names each block once, and the end of them whatever is thrown on the way.
class BlockTeller {
 public:
  explicit BlockTeller(BlockWatch* watch) : watch_(watch) {}
  ~BlockTeller() {
    if (block_ >= 0) watch_->after_blocks();
  }
  void tell(const Task& task, int n_tokens) {
    if (watch_ == nullptr || task.block < 0 || task.block == block_) return;
    block_ = task.block;
    watch_->before_block(block_, task.executable->n_tokens(), n_tokens);
  }

 private:
  BlockWatch* watch_;
  int block_ = -1;
};

}  // namespace

void throw_failed(const char* name, int block, const lanes::Lane& lane) {
  const std::string problem = lane.problem();
  throw Error(fmt::format("'{}' of block {} failed on lane '{}'{}{}.", name, block,
                          lane.info().name, problem.empty() ? "" : ": ", problem));
}

void run_in_order(const TaskList& list, const lanes::Run& run, lanes::Machine& machine,
                  Trace* trace, BlockWatch* watch) {
  run_in_order(std::span<const Task>(list.tasks), run, machine, trace, watch);
}

void run_in_order(std::span<const Task> tasks, const lanes::Run& run, lanes::Machine& machine,
                  Trace* trace, BlockWatch* watch) {
  BlockTeller teller(watch);
  for (const Task& task : tasks) {
    teller.tell(task, run.n_tokens);
    lanes::Lane& lane = *machine.lanes()[static_cast<size_t>(task.lane)];
    const double start_us = trace != nullptr ? machine.clock().now_us() : 0.0;
    Waiting completion;
    lane.submit(*task.executable, run, completion);
    const lanes::Status status = completion.wait(machine);
    if (trace != nullptr) {
      trace->add(
          {task.lane, task.name, task.block, run.n_tokens, start_us, machine.clock().now_us()});
    }
    if (status == lanes::Status::kFailed) {
      throw_failed(task.name, task.block, lane);
    }
  }
}

}  // namespace troika::schedule
