// Lets a thread wait for the end of its reads.
#pragma once

#include <condition_variable>
#include <mutex>

#include "lanes/lane.h"

namespace troika::prepare {

// The mutex is held while the end is told, so that the waiting thread may destroy this right after.
struct AwaitedRead : lanes::Completion {
  void finished(lanes::Status told) override {
    const std::lock_guard<std::mutex> lock(mutex);
    status = told;
    ended.notify_all();
  }
  lanes::Status wait() {
    std::unique_lock<std::mutex> lock(mutex);
    ended.wait(lock, [this] { return status != lanes::Status::kPending; });
    return status;
  }
  std::mutex mutex;
  std::condition_variable ended;
  lanes::Status status = lanes::Status::kPending;
};

}  // namespace troika::prepare
