#include "lanes/next_task.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/threads/spin.h"

namespace troika::lanes {
namespace {

// kSleepLateUs says how late sleeps are taken to end as long as nothing is known, and kMostLateUs
// is the most that is ever assumed.
constexpr double kSleepLateUs = 60.0;
constexpr double kMostLateUs = 500.0;
constexpr double kSpareUs = 20.0;
constexpr double kForgetLate = 0.02;
// Says how much longer than expected a thread stays awake; after that it sleeps until the system
// wakes it.
constexpr double kAwakeUs = 300.0;
// A wait longer than this was for a person, not for another lane, so nothing is learned from it.
constexpr double kLongestUs = 100e3;
// Expected waits shrink at once and grow slowly, because sleeping too long costs more than being
// awake.
constexpr double kLearnLonger = 0.25;
// A wait counts as no more than kMostTimesLonger times what was expected, or as the time awake: a
// longer one is idle time more often than work that has grown.
constexpr double kMostTimesLonger = 4.0;
// A wait whose task was there already when the sleep ended counts as this share of what was
// expected. Nobody saw when the task came, and it may have been early in the sleep.
constexpr double kLearnOverslept = 0.5;
constexpr int kPausesPerLook = 16;  // counts pauses between two looks at the clock

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
  if (known.last != last) {
    // The first wait behind a task may be a pause between two requests.
    known = {last, std::min(us, kAwakeUs)};
  } else if (us < known.us) {
    known.us = us;
  } else {
    const double most_us = std::max(kMostTimesLonger * known.us, kAwakeUs);
    known.us += kLearnLonger * (std::min(us, most_us) - known.us);
  }
}

// Follows at once where sleeps end later than before, and slowly where they end sooner.
void NextTask::learn_lateness(double us) {
  us = std::min(us, kMostLateUs);
  late_us_ = us > late_us_ ? us : late_us_ + kForgetLate * (us - late_us_);
}

bool NextTask::wait(const std::atomic<uint32_t>& n_submitted, uint32_t n_seen, const void* last) {
  const auto has_come = [&] { return n_submitted.load(std::memory_order_acquire) != n_seen; };
  if (has_come()) return false;
  const RealClock clock;
  const double start_us = clock.now_us();
  const double expected = expected_us(last);
  const double early_us = late_us_ + kSpareUs;
  if (expected > 2 * early_us) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(expected - early_us));
    learn_lateness(clock.now_us() - (start_us + expected - early_us));
    if (has_come()) {
      learn(last, kLearnOverslept * expected);
      return false;
    }
  }
  const double end_us = start_us + std::max(expected, 0.0) + kAwakeUs;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (has_come()) {
        learn(last, clock.now_us() - start_us);
        return true;
      }
      pause_cpu();
    }
  } while (clock.now_us() < end_us);
  while (!has_come()) n_submitted.wait(n_seen, std::memory_order_acquire);
  learn(last, clock.now_us() - start_us);
  return false;
}

}  // namespace troika::lanes
