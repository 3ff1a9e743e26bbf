#include "schedule/run.h"

#include <atomic>

#include "base/error.h"

namespace troika::schedule {
namespace {

class Waiting : public lanes::Completion {
 public:
  void finished(lanes::Status status) override {
    status_.store(status, std::memory_order_release);
    status_.notify_one();
  }
  lanes::Status wait() const {
    status_.wait(lanes::Status::kPending, std::memory_order_acquire);
    return status_.load(std::memory_order_acquire);
  }

 private:
  std::atomic<lanes::Status> status_{lanes::Status::kPending};
};

}  // namespace

void run_in_order(const TaskList& list, const lanes::Run& run) {
  for (const Task& task : list.tasks) {
    Waiting completion;
    task.lane->submit(*task.executable, run, completion);
    if (completion.wait() == lanes::Status::kFailed) {
      throw Error("A step of the model failed on lane '" + task.lane->info().name + "'.");
    }
  }
}

}  // namespace troika::schedule
