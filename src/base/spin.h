// Waiting awake for a moment, then asleep: handovers in microseconds without burning an idle
// machine.
#pragma once

#include <atomic>

namespace troika {

// About 20 to 50 us: longer than the gap between two ops of a decode step, shorter than anyone
// would notice on a battery.
inline constexpr int kSpins = 4000;

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns when `value` no longer equals `old`. Whoever changes it must notify it.
template <typename T>
void wait_for_change(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_cpu();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace troika
