// How a lane of an OpenCL device runs what is submitted: a thread of its own puts tasks into the
// device's queue, and tells their ends in that order.
#include <fmt/format.h>

#include "base/system.h"
#include "base/threads/spin.h"
#include "lanes/machine.h"
#include "lanes/opencl/opencl_executable.h"
#include "lanes/opencl/opencl_lane.h"

namespace troika::lanes {

using opencl::DeviceRun;
using opencl::Int;
using opencl::kOk;

void OpenclLane::submit(const Executable& executable, const Run& run, Completion& completion) {
  const std::lock_guard<std::mutex> lock(handover_);
  const uint32_t number = n_submitted_.load(std::memory_order_relaxed);
  Task& task = task_at(number);
  task.executable = &static_cast<const OpenclExecutable&>(executable);
  task.run = &run;
  task.completion = &completion;
  task.event = nullptr;
  task.has_failed = task.has_ended = false;
  store_and_notify(&n_submitted_, number + 1);
  n_changes_.fetch_add(1, std::memory_order_release);
  n_changes_.notify_one();
}

// Puts tasks that wait for nothing into the queue at once. Where the next task waits for an idle
// device, or there is no next task, the thread waits for the end of the oldest task.
void OpenclLane::work() {
  bind_to_cores(info_.cores);
  const auto next = is_fast_ ? std::make_unique<NextTask>() : nullptr;
  const Executable* last = nullptr;  // the executable that was started last
  uint32_t n_started = 0;
  while (true) {
    const uint32_t n_changes = n_changes_.load(std::memory_order_acquire);
    if (!is_fast_ && n_started == n_told_) wait_for_change(n_submitted_, n_started);
    if (n_submitted_.load(std::memory_order_acquire) != n_started) {
      // The lane may be destroyed only when nothing is unfinished.
      if (n_started == n_told_) {
        const std::lock_guard<std::mutex> lock(handover_);
        if (stop_) return;
      }
      Task& task = task_at(n_started);
      if (n_started == n_told_ || !task.executable->waits()) {
        start(&task, run_data_[n_started % run_data_.size()].get());
        last = task.executable;
        if (is_fast_) ask_to_be_told(&task);
        ++n_started;
        continue;
      }
    }
    if (is_fast_) {
      wait_for_work(n_started, n_changes, last, next.get());
    } else {
      end_oldest(n_started);
    }
  }
}

// Waits until a task comes or a task's end is told: then a task that waits for an idle device may
// start. While a driver works on the lane's cores this thread sleeps, so that it takes no core from
// the driver.
void OpenclLane::wait_for_work(uint32_t n_started, uint32_t n_changes, const Executable* last,
                               NextTask* next) {
  if (n_started == n_told_.load(std::memory_order_acquire)) {
    next->wait(n_changes_, n_changes, last);
    return;
  }
  n_changes_.wait(n_changes, std::memory_order_acquire);
}

// Hands the task to the driver: its end may be told, and its place taken by another task, before
// this function returns.
void OpenclLane::ask_to_be_told(Task* task) {
  const opencl::Api& api = device_->api();
  if (task->event != nullptr) {
    const Int status = api.tell(task->event, opencl::kComplete, note_end_of, task);
    if (status == kOk) return;
    note_problem("it does not say when a task ends", status);
    task->has_failed = true;
    api.finish(device_->queue());
  }
  note_end(task, kOk);
}

void OpenclLane::note_end_of(opencl::Event, Int state, void* task) {
  Task* const ended = static_cast<Task*>(task);
  ended->lane->note_end(ended, state);
}

// Marks a task as ended. A driver may call in any order, but ends are told in the order of the
// tasks.
void OpenclLane::note_end(Task* task, Int state) {
  const std::lock_guard<std::mutex> lock(telling_);
  end(task, state);
  task->has_ended = true;
  // The place of the next task is not looked at: it may be written at this moment.
  while (n_told_ != n_submitted_.load(std::memory_order_acquire) && task_at(n_told_).has_ended) {
    Task& told = task_at(n_told_);
    // The completion may submit a task that takes this one's place.
    Completion* const completion = told.completion;
    const Status status = told.has_failed ? Status::kFailed : Status::kDone;
    told.has_ended = false;
    n_told_.fetch_add(1, std::memory_order_release);
    completion->finished(status);
  }
  n_changes_.fetch_add(1, std::memory_order_release);
  n_changes_.notify_one();
}

// Finds out how the task's marker and its kernels ended, and lets go of them.
void OpenclLane::end(Task* task, Int state) {
  const Int problem = task->kernels.take_problem();
  if (state >= opencl::kComplete) state = problem;
  if (state < opencl::kComplete) {
    note_problem("a task failed on it", state);
    task->has_failed = true;
  }
  if (task->event != nullptr) device_->api().release_event(task->event);
}

void OpenclLane::start(Task* task, opencl::RunData* data) {
  const OpenclExecutable& executable = *task->executable;
  const Run own = executable.tokens().of(*task->run);
  if (executable.tokens().is_empty(own)) return;
  Int status = kOk;
  if (executable.reads_run() &&
      !data->take(own, executable.n_pairs(), executable.sees_positions())) {
    note_problem(
        fmt::format("it has no memory left to share, for the positions that {} tokens see. Use a "
                    "smaller ‹context› or ‹chunk›",
                    own.n_tokens),
        kOk);
    task->has_failed = true;
    return;
  }
  status = start_stages(executable, *task->run, own, *data);
  const opencl::Api& api = device_->api();
  if (status == kOk) status = api.marker(device_->queue(), 0, nullptr, &task->event);
  if (status == kOk) status = api.flush(device_->queue());
  if (status == kOk) return task->kernels.swap(device_->started());
  const bool is_of_cores = status == opencl::kHostFailed;
  note_problem(is_of_cores ? "on its cores, " + host_.problem() : "it does not take a task",
               is_of_cores ? kOk : status);
  task->has_failed = true;
  // What is in the queue of a failed task must not run any more when its end is told.
  device_->finish();
}

Int OpenclLane::start_stages(const OpenclExecutable& executable, const Run& run, const Run& own,
                             const opencl::RunData& data) {
  const size_t set_offset = executable.set_stride() * static_cast<size_t>(run.buffer_set);
  const DeviceRun device_run = {own, set_offset, data};
  bool is_first = true;
  for (const OpenclStage& stage : executable.stages()) {
    if (stage.needs_idle_device() && !is_first) {
      if (const Int status = device_->finish(); status != kOk) return status;
    }
    is_first = false;
    if (stage.host != nullptr) {
      Ended ended;
      host_.submit(*stage.host, run, ended);
      if (ended.status != Status::kDone) return opencl::kHostFailed;
    }
    if (stage.quantizer) stage.quantizer->run(kernels_, device_run, pool_);
    for (const QueuedOp& queued : stage.ops) {
      const BoundOp& bound = queued.bound;
      if (own.observer != nullptr && bound.op.kind == model::OpKind::kLinear &&
          bound.first_column == 0) {
        if (const Int status = device_->finish(); status != kOk) return status;
        own.observer->observe(bound.op, bound.inputs[0] + set_offset,
                              static_cast<int>(device_run.n_rows(bound)), bound.input_width);
      }
      if (const Int status = queued.op->enqueue(device_run); status != kOk) return status;
    }
  }
  return kOk;
}

// Waits for an event. A driver that works on cores needs them meanwhile, so this thread sleeps.
// With another driver this thread watches for the event's end and for the next task.
Int OpenclLane::wait_for(opencl::Event event, uint32_t n_started) {
  const opencl::Api& api = device_->api();
  if (device_->entry().is_cpu) {
    const Int status = api.wait(1, &event);
    if (status != kOk) return status;
  }
  Int state = kOk;
  while (true) {
    const Int status = api.event_info(event, opencl::kEventStatus, sizeof(state), &state, nullptr);
    if (status != kOk) return status;
    if (state <= opencl::kComplete) return state;
    if (n_submitted_.load(std::memory_order_acquire) != n_started &&
        !task_at(n_started).executable->waits()) {
      return state;
    }
    pause_cpu();
  }
}

void OpenclLane::end_oldest(uint32_t n_started) {
  Task& oldest = task_at(n_told_);
  if (oldest.event != nullptr) {
    const Int state = wait_for(oldest.event, n_started);
    if (state > opencl::kComplete) return;  // the next task can be started meanwhile
    end(&oldest, state);
  }
  // The pointers are copied, because the completion may submit a task that takes this one's place,
  // or end the lane's life.
  Completion* const completion = oldest.completion;
  const Status status = oldest.has_failed ? Status::kFailed : Status::kDone;
  ++n_told_;
  completion->finished(status);
}

void OpenclLane::note_problem(const std::string& what, Int status) {
  const std::lock_guard<std::mutex> lock(problem_mutex_);
  problem_ = fmt::format("the OpenCL device '{}': {}", device_->entry().name, what);
  if (status == kOk) return;
  problem_ += fmt::format(" ({}); leave it out of ‹lanes›, or try another driver",
                          opencl::status_name(status));
}

}  // namespace troika::lanes
