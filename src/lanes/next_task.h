// How an idle worker waits for its next task where handovers are to be fast (H8). It sleeps for as
// long as it waited behind the same task before, less the time by which sleeps end too late, and
// then watches a flag. Only the thread of a lane on cores of its own may wait like this: nobody
// else may stay awake.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace troika::lanes {

class NextTask {
 public:
  // Called on the thread that will wait. Makes sleeps of this thread end as soon as the system can.
  NextTask();

  // Returns when `n_submitted` is no longer n_seen, and whether this thread was awake and watching
  // when that happened. `last` is the task that ran before; null: none did. Whoever changes the
  // number must notify it.
  bool wait(const std::atomic<uint32_t>& n_submitted, uint32_t n_seen, const void* last);

  // Returns how long a wait behind this task is expected to be; less than 0: nobody knows.
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

  double late_us_;  // by how much sleeps ended too late
  // Tasks that share a slot overwrite each other's entry.
  std::array<Known, kSlots> known_;
};

}  // namespace troika::lanes
