// How a lane of an OpenCL device runs what is submitted: a thread of its own puts tasks into the
// device's queue, and tells their ends in that order.
#include <fmt/format.h>

#include "base/spin.h"
#include "base/system.h"
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
  task_at(number) = {&static_cast<const OpenclExecutable&>(executable), &run, &completion};
  n_submitted_.store(number + 1, std::memory_order_release);
  n_submitted_.notify_one();
}

// What waits for nothing goes into the queue at once; before anything else, and when there is
// nothing more, the oldest task is waited for.
void OpenclLane::work() {
  bind_to_cores(info_.cores);
  uint32_t n_started = 0;
  while (true) {
    if (n_started == n_told_) wait_for_change(n_submitted_, n_started);
    if (n_submitted_.load(std::memory_order_acquire) != n_started) {
      // Only when nothing is unfinished may the lane be destroyed.
      if (n_started == n_told_) {
        const std::lock_guard<std::mutex> lock(handover_);
        if (stop_) return;
      }
      Task& task = task_at(n_started);
      if (n_started == n_told_ || !task.executable->waits()) {
        start(&task, run_data_[n_started % run_data_.size()].get());
        ++n_started;
        continue;
      }
    }
    end_oldest(n_started);
  }
}

void OpenclLane::start(Task* task, opencl::RunData* data) {
  const OpenclExecutable& executable = *task->executable;
  const Run own = executable.tokens().of(*task->run);
  if (executable.tokens().is_empty(own)) return;
  Int status = kOk;
  if (!data->take(own, executable.n_pairs(), executable.sees_positions())) {
    note_problem("there is no memory to share with it", kOk);
    task->has_failed = true;
    return;
  }
  status = start_stages(executable, *task->run, own, *data);
  const opencl::Api& api = device_->api();
  if (status == kOk) status = api.marker(device_->queue(), 0, nullptr, &task->event);
  if (status == kOk) status = api.flush(device_->queue());
  if (status == kOk) return;
  note_problem("it does not take a task", status);
  task->has_failed = true;
  // What of it is in the queue must not run any more when its end is told.
  api.finish(device_->queue());
}

Int OpenclLane::start_stages(const OpenclExecutable& executable, const Run& run, const Run& own,
                             const opencl::RunData& data) {
  const opencl::Api& api = device_->api();
  const size_t set_offset = executable.set_stride() * static_cast<size_t>(run.buffer_set);
  const DeviceRun device_run = {own, set_offset, data};
  bool is_first = true;
  for (const OpenclStage& stage : executable.stages()) {
    if (stage.needs_idle_device() && !is_first) {
      if (const Int status = api.finish(device_->queue()); status != kOk) return status;
    }
    is_first = false;
    if (stage.host != nullptr) {
      Ended ended;
      host_.submit(*stage.host, run, ended);
      if (ended.status != Status::kDone) return opencl::kNoDevice;
    }
    if (stage.quantizer) stage.quantizer->run(kernels_, device_run, pool_);
    for (const QueuedOp& queued : stage.ops) {
      const BoundOp& bound = queued.bound;
      if (own.observer != nullptr && bound.product() != nullptr && bound.first_column == 0) {
        if (const Int status = api.finish(device_->queue()); status != kOk) return status;
        own.observer->observe(bound.op, bound.inputs[0] + set_offset,
                              static_cast<int>(device_run.n_rows(bound)), bound.input_width);
      }
      if (const Int status = queued.op->enqueue(device_run); status != kOk) return status;
    }
  }
  return kOk;
}

// A driver that works on cores needs them while it is waited for; another's end is looked for, and
// so is the next task.
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
    if (state > opencl::kComplete) return;  // there is something else to do meanwhile
    if (state < opencl::kComplete) {
      note_problem("a task failed on it", state);
      oldest.has_failed = true;
    }
    device_->api().release_event(oldest.event);
  }
  // Copies: the completion may submit a task that takes this one's place, or end the lane's life.
  Completion* const completion = oldest.completion;
  const Status status = oldest.has_failed ? Status::kFailed : Status::kDone;
  ++n_told_;
  completion->finished(status);
}

void OpenclLane::note_problem(const char* what, Int status) {
  const std::lock_guard<std::mutex> lock(problem_mutex_);
  problem_ = fmt::format("the OpenCL device '{}': {}", device_->entry().name, what);
  if (status != kOk) problem_ += fmt::format(" ({})", opencl::status_name(status));
}

}  // namespace troika::lanes
