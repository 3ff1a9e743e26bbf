#include "lanes/next_task.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/spin.h"

namespace troika::lanes {
namespace {

// A sleep ends late by so much, as long as nothing is known, and by no more than the second.
constexpr double kSleepLateUs = 60.0;
constexpr double kMostLateUs = 500.0;
constexpr double kSpareUs = 20.0;
constexpr double kForgetLate = 0.02;
// A thread stays awake for so much longer than was expected; then the system wakes it.
constexpr double kAwakeUs = 300.0;
// A wait that was longer than this was for a person, not for another lane.
constexpr double kLongestUs = 100e3;
// Waits become shorter at once and longer slowly: to sleep for too long costs more than to be
// awake.
constexpr double kLearnLonger = 0.25;
constexpr int kPausesPerLook = 16;  // at the clock

}  // namespace

NextTask::NextTask() : late_us_(kSleepLateUs) { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

size_t NextTask::slot_of(const void* last) {
  constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;
  return (reinterpret_cast<uintptr_t>(last) * kSpread >> 32) % kSlots;
}

double NextTask::expected_us(const void* last) const {
  const Known& known = known_[slot_of(last)];
  return known.last == last ? known.us : -1.0;
}

void NextTask::learn(const void* last, double us) {
  if (us > kLongestUs) return;
  Known& known = known_[slot_of(last)];
  if (known.last != last || us < known.us) {
    known = {last, us};
  } else {
    known.us += kLearnLonger * (us - known.us);
  }
}

// Follows sleeps at once where they end later, and slowly where they end sooner.
void NextTask::learn_lateness(double us) {
  us = std::min(us, kMostLateUs);
  late_us_ = us > late_us_ ? us : late_us_ + kForgetLate * (us - late_us_);
}

void NextTask::wait(const std::atomic<uint32_t>& n_submitted, uint32_t n_seen, const void* last) {
  const auto has_come = [&] { return n_submitted.load(std::memory_order_acquire) != n_seen; };
  if (has_come()) return;
  const RealClock clock;
  const double start_us = clock.now_us();
  const double expected = expected_us(last);
  const double early_us = late_us_ + kSpareUs;
  if (expected > 2 * early_us) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(expected - early_us));
    learn_lateness(clock.now_us() - (start_us + expected - early_us));
  }
  const double end_us = start_us + std::max(expected, 0.0) + kAwakeUs;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (has_come()) {
        learn(last, clock.now_us() - start_us);
        return;
      }
      pause_cpu();
    }
  } while (clock.now_us() < end_us);
  while (!has_come()) n_submitted.wait(n_seen, std::memory_order_acquire);
  learn(last, clock.now_us() - start_us);
}

}  // namespace troika::lanes
