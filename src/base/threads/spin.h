// Waits awake for a moment, then asleep: handovers take microseconds, and an idle machine is not
// kept busy.
#pragma once

#include <atomic>
#include <chrono>

namespace troika {

// Is the time for which a wait stays awake. It is longer than the gap between two ops of a decode
// step, and than the time between two steps (60 to 130 µs of sampling and text, after which waking
// takes 40 more). It is shorter than anyone would notice on a battery. It is a time and not a
// count, because a pause takes 10 cycles on one processor and 140 on another.
inline constexpr std::chrono::microseconds kSpinTime{200};

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns when `value` no longer equals `old`; whoever changes it must notify it. Says whether it
// had to sleep for that.
template <typename T>
bool wait_for_change(const std::atomic<T>& value, T old) {
  using Clock = std::chrono::steady_clock;
  // Counts pauses between two looks at the clock, which cost more than a pause.
  constexpr int kPausesPerLook = 16;
  Clock::time_point end{};
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (value.load(std::memory_order_acquire) != old) return false;
      pause_cpu();
    }
    if (end == Clock::time_point{}) end = Clock::now() + kSpinTime;
  } while (Clock::now() < end);
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
  return true;
}

// Stores another value and wakes all who wait for a change of it. The library wakes nobody where it
// sees nobody wait, so the store must be seen before it looks: a store in a weaker order may stay
// in the processor while somebody compares the old value and falls asleep for ever.
template <typename T>
void store_and_notify(std::atomic<T>* value, T what) {
  value->store(what, std::memory_order_seq_cst);
  value->notify_all();
}

}  // namespace troika
