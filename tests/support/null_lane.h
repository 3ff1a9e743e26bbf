// A lane for tests and benchmarks that computes nothing and ends each task at once, on the calling
// thread: it shows what is built and in which order it runs, without a model. Tests that need more
// have lanes of their own: a queue (tests/support/queue_lane.h), a clock that goes on
// (schedule/runner_test.cc), or a cost (solve/profile/profile_machine_test.cc).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lanes/lane.h"
#include "tests/support/test_lane.h"

namespace troika::test {

class NullExecutable : public lanes::Executable {
 public:
  NullExecutable(int n_tokens, int id) : Executable(n_tokens), id_(id) {}
  int id() const { return id_; }

 private:
  int id_;
};

class NullLane : public TestLane {
 public:
  using TestLane::TestLane;

  std::unique_ptr<lanes::Executable> build(const lanes::Subgraph&, plan::Shape shape,
                                           const weights::Store&, const lanes::Buffers&) override {
    return make(shape.n_rows);
  }
  std::unique_ptr<lanes::Executable> make(int n_tokens) {
    return std::make_unique<NullExecutable>(n_tokens, n_built_++);
  }
  void submit(const lanes::Executable& executable, const lanes::Run&,
              lanes::Completion& completion) override {
    const int id = static_cast<const NullExecutable&>(executable).id();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ran_.push_back(id);
    }
    completion.finished(lanes::Status::kDone);
  }

  // Returns the numbers of the executables that ran, in order.
  std::vector<int> ran() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ran_;
  }

 private:
  int n_built_ = 0;
  mutable std::mutex mutex_;
  std::vector<int> ran_;
};

}  // namespace troika::test
