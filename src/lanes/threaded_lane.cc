#include "lanes/threaded_lane.h"

#include "base/system.h"
#include "base/threads/spin.h"

namespace troika::lanes {

ThreadedLane::ThreadedLane(std::unique_ptr<Lane> inner, plan::HandoverKind handover)
    : inner_(std::move(inner)), handover_kind_(handover), thread_([this] { work(); }) {}

ThreadedLane::~ThreadedLane() {
  {
    const std::lock_guard<std::mutex> lock(handover_);
    stop_ = true;
    n_submitted_.fetch_add(1, std::memory_order_release);
    n_submitted_.notify_one();
  }
  thread_.join();
}

std::unique_ptr<Executable> ThreadedLane::build(const Subgraph& subgraph, plan::Shape shape,
                                                const weights::Store& weights,
                                                const Buffers& buffers) {
  return inner_->build(subgraph, shape, weights, buffers);
}

void ThreadedLane::submit(const Executable& executable, const Run& run, Completion& completion) {
  const std::lock_guard<std::mutex> lock(handover_);
  task_ = {&executable, &run, &completion};
  n_submitted_.fetch_add(1, std::memory_order_release);
  n_submitted_.notify_one();
}

void ThreadedLane::work() {
  bind_to_cores(inner_->info().cores);
  const bool is_fast = handover_kind_ == plan::HandoverKind::kFast;
  const auto next = is_fast ? std::make_unique<NextTask>() : nullptr;
  const Executable* last = nullptr;  // the executable that ran last
  uint32_t n_seen = 0;
  while (true) {
    if (is_fast) {
      if (next->wait(n_submitted_, n_seen, last)) {
        n_awake_.fetch_add(1, std::memory_order_relaxed);
      }
    } else {
      wait_for_change(n_submitted_, n_seen);
    }
    ++n_seen;
    if (stop_) return;
    last = task_.executable;
    // The task is copied, because the completion may submit the next task, which takes the place of
    // this one.
    const Task task = task_;
    inner_->submit(*task.executable, *task.run, *task.completion);
  }
}

}  // namespace troika::lanes
