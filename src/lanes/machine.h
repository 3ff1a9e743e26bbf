// The lanes that work together, the clock that they share, and how to wait for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "lanes/lane.h"

namespace troika::lanes {

// A gate for one waiting thread: whoever finishes last opens it.
class Latch {
 public:
  // Called before the work begins that is waited for. REQUIRES: nobody waits.
  void close() { is_open_.store(false, std::memory_order_relaxed); }
  void open() {
    is_open_.store(true, std::memory_order_release);
    is_open_.notify_all();
  }
  bool is_open() const { return is_open_.load(std::memory_order_acquire); }
  void wait() const { is_open_.wait(false, std::memory_order_acquire); }

 private:
  std::atomic<bool> is_open_{false};
};

// Hears of the end of one task. REQUIRES: it outlives the lane's call of `finished`: a lane with a
// thread of its own may still be in that call when the latch is open.
class Ended : public Completion {
 public:
  void finished(Status told) override {
    status = told;
    latch.open();
  }
  Status status = Status::kPending;
  Latch latch;
};

class Machine {
 public:
  virtual ~Machine() = default;
  // Returns all lanes; a lane's place in this list is its index.
  virtual std::span<Lane* const> lanes() const = 0;
  virtual const Clock& clock() const = 0;
  // Returns when the latch is open. On real lanes this sleeps; a virtual machine lets its time pass
  // here. REQUIRES: some submitted task will open it.
  virtual void wait(const Latch& latch) = 0;
};

// Returns the memory of the first lane that owns one; null where values may lie anywhere.
inline Memory* owned_memory(const Machine& machine) {
  for (Lane* const lane : machine.lanes()) {
    if (Memory* const memory = lane->memory(); memory != nullptr) return memory;
  }
  return nullptr;
}

}  // namespace troika::lanes
