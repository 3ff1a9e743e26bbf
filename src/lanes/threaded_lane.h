// Gives a lane that works on the caller's thread a thread of its own, so that several such lanes
// can work at once. It takes one task at a time, as the lane inside does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "lanes/lane.h"
#include "lanes/next_task.h"

namespace troika::lanes {

class ThreadedLane : public Lane {
 public:
  explicit ThreadedLane(std::unique_ptr<Lane> inner,
                        plan::HandoverKind handover = plan::HandoverKind::kOrdinary);
  ~ThreadedLane() override;

  const LaneInfo& info() const override { return inner_->info(); }
  Memory* memory() override { return inner_->memory(); }
  size_t held_bytes() const override { return inner_->held_bytes(); }
  std::string problem() const override { return inner_->problem(); }
  std::string note() const override { return inner_->note(); }
  double started_us() const override { return inner_->started_us(); }
  std::unique_ptr<Executable> build(const Subgraph& subgraph, plan::Shape shape,
                                    const weights::Store& weights, const Buffers& buffers) override;
  std::span<const char* const> arrangements(plan::Shape shape) const override {
    return inner_->arrangements(shape);
  }
  // Returns at once. May be called from the completion of this lane's last task, and from any other
  // thread that ends a task. The lane may be destroyed as soon as the submitted task has ended.
  void submit(const Executable& executable, const Run& run, Completion& completion) override;
  // Counts the tasks that came while the thread was awake and watching for them (H8). It stays 0
  // with ordinary handovers.
  int64_t n_awake() const { return n_awake_.load(std::memory_order_relaxed); }

 private:
  struct Task {
    const Executable* executable = nullptr;
    const Run* run = nullptr;
    Completion* completion = nullptr;
  };
  void work();

  std::unique_ptr<Lane> inner_;
  plan::HandoverKind handover_kind_;
  // Held while a task is handed over. Before the submitter has left, the thread may have run the
  // task and the pass may have ended: so the destructor waits for this mutex.
  std::mutex handover_;
  std::atomic<uint32_t> n_submitted_{0};
  std::atomic<int64_t> n_awake_{0};
  Task task_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace troika::lanes
