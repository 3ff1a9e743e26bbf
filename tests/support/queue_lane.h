// A lane for tests with a queue: its thread runs what is submitted, one task after the other. With
// a depth of 1 it is an ordinary lane with a thread.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lanes/machine.h"
#include "tests/support/test_lane.h"

namespace troika::test {

class QueueLane : public TestLane {
 public:
  using Body = std::function<lanes::Status(const lanes::Executable&, const lanes::Run&)>;

  // If `drops_behind` is set, a failed task takes all tasks with it that are in the queue by then.
  QueueLane(std::string name, int depth, bool drops_behind, Body body)
      : TestLane(std::move(name), depth),
        body_(std::move(body)),
        drops_behind_(drops_behind),
        tasks_(static_cast<size_t>(depth)) {
    thread_ = std::thread([this] { work(); });
  }
  ~QueueLane() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      changed_.notify_one();
    }
    thread_.join();
  }

  void submit(const lanes::Executable& executable, const lanes::Run& run,
              lanes::Completion& completion) override {
    // The thread is notified under the lock, because the pass, and this lane with it, may end as
    // soon as the task has run.
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_LT(n_unfinished_, tasks_.size()) << info().name << " has no room for another task";
    tasks_[(first_ + n_unfinished_) % tasks_.size()] = {&executable, &run, &completion};
    ++n_unfinished_;
    most_unfinished_ = std::max(most_unfinished_, n_unfinished_);
    changed_.notify_one();
  }

  bool is_idle() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return n_unfinished_ == 0;
  }
  size_t most_unfinished() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return most_unfinished_;
  }

 private:
  struct Task {
    const lanes::Executable* executable = nullptr;
    const lanes::Run* run = nullptr;
    lanes::Completion* completion = nullptr;
  };

  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    size_t n_dropped = 0;  // the next so many tasks fail without being run
    while (true) {
      changed_.wait(lock, [&] { return stop_ || n_unfinished_ > 0; });
      if (n_unfinished_ == 0) return;
      const Task task = tasks_[first_];
      lanes::Status status = lanes::Status::kFailed;
      if (n_dropped > 0) {
        --n_dropped;
      } else {
        lock.unlock();
        status = body_(*task.executable, *task.run);
        lock.lock();
        if (status == lanes::Status::kFailed && drops_behind_) n_dropped = n_unfinished_ - 1;
      }
      first_ = (first_ + 1) % tasks_.size();
      --n_unfinished_;
      lock.unlock();
      task.completion->finished(status);
      lock.lock();
    }
  }

  Body body_;
  bool drops_behind_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> tasks_;  // is a ring as long as the queue is deep
  size_t first_ = 0;
  size_t n_unfinished_ = 0;
  size_t most_unfinished_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace troika::test
