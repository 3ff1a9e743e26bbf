// How an idle worker waits for its next task where handovers are to be fast (H8): it sleeps for as
// long as it waited behind the same task before, less what a sleep ends too late, then looks at a
// flag. It is the thread of a lane, on cores that are the lane's: nobody else may stay awake.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace troika::lanes {

class NextTask {
 public:
  // On the thread that will wait. Sleeps of this thread end as soon as the system can.
  NextTask();

  // Returns when `n_submitted` is no longer n_seen. `last` is what ran before, whatever it is;
  // null: nothing. Whoever changes the number must notify it.
  void wait(const std::atomic<uint32_t>& n_submitted, uint32_t n_seen, const void* last);

  // How long a wait behind this one is expected to be; less than 0: nobody knows.
  double expected_us(const void* last) const;

 private:
  static constexpr size_t kSlots = 1024;
  struct Known {
    const void* last = nullptr;
    double us = -1.0;
  };
  static size_t slot_of(const void* last);
  void learn(const void* last, double us);
  void learn_lateness(double us);

  double late_us_;  // by which sleeps ended too late
  // Two that share a slot forget each other.
  std::array<Known, kSlots> known_;
};

}  // namespace troika::lanes
