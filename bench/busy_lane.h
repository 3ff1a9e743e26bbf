// Has lanes that keep a core busy for a while and record when, and a machine of given lanes, for
// benchmarks of handovers.
#pragma once

#include <fmt/format.h>
#include <time.h>

#include <vector>

#include "base/threads/spin.h"
#include "lanes/machine.h"
#include "tests/support/null_lane.h"

namespace troika::bench {

inline double thread_cpu_us() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

class BusyLane : public test::NullLane {
 public:
  BusyLane(int core, double task_us) : NullLane(""), task_us_(task_us) {
    info_.name = fmt::format("core {}", core);
    info_.cores = {core};
    starts_us.reserve(kMostTasks);
    ends_us.reserve(kMostTasks);
  }
  const lanes::LaneInfo& info() const override { return info_; }
  void submit(const lanes::Executable&, const lanes::Run&, lanes::Completion& completion) override {
    const RealClock clock;
    const double start_us = clock.now_us();
    starts_us.push_back(start_us);
    const double cpu_us = thread_cpu_us();
    if (last_cpu_us_ > 0.0) waiting_cpu_us += cpu_us - last_cpu_us_;
    if (!ends_us.empty()) waiting_us += start_us - ends_us.back();
    while (clock.now_us() < start_us + task_us_) pause_cpu();
    last_cpu_us_ = thread_cpu_us();
    ends_us.push_back(clock.now_us());
    completion.finished(lanes::Status::kDone);
  }

  static constexpr size_t kMostTasks = 1 << 16;
  std::vector<double> starts_us, ends_us;
  // The time between tasks, and how much of it the thread was awake.
  double waiting_us = 0.0, waiting_cpu_us = 0.0;

 private:
  lanes::LaneInfo info_;
  double task_us_;
  double last_cpu_us_ = -1.0;
};

class GivenMachine : public lanes::Machine {
 public:
  // The lane must outlive the machine.
  void add(lanes::Lane* lane) { lanes_.push_back(lane); }
  std::span<lanes::Lane* const> lanes() const override { return lanes_; }
  const Clock& clock() const override { return clock_; }
  void wait(const lanes::Latch& latch) override { latch.wait(); }

 private:
  RealClock clock_;
  std::vector<lanes::Lane*> lanes_;
};

}  // namespace troika::bench
