// The lanes that work together, the clock that they share, and how to wait for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>

#include "base/clock.h"
#include "base/threads/spin.h"
#include "lanes/lane.h"

namespace troika::lanes {

// A gate for one waiting thread: whoever finishes last opens it. The thread that waited may destroy
// it at once: it is not let through before the other one has left.
class Latch {
 public:
  // Called before the work begins that is waited for. REQUIRES: nobody waits.
  void close() { state_.store(kClosed, std::memory_order_relaxed); }
  void open() {
    store_and_notify<int32_t>(&state_, kWaking);
    state_.store(kOpen, std::memory_order_release);
  }
  bool is_open() const { return state_.load(std::memory_order_acquire) == kOpen; }
  void wait() const {
    state_.wait(kClosed, std::memory_order_acquire);
    while (!is_open()) std::this_thread::yield();
  }

 private:
  enum State : int32_t { kClosed, kWaking, kOpen };
  std::atomic<int32_t> state_{kClosed};
};

// Hears of the end of one task. It may be destroyed as soon as the latch is open.
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

// Returns the cores to which whoever has a machine's lanes work keeps meanwhile; none where that
// thread may run anywhere.
inline std::span<const int> caller_cores(const Machine& machine) {
  for (const Lane* const lane : machine.lanes()) {
    if (!lane->caller_cores().empty()) return lane->caller_cores();
  }
  return {};
}

// Returns the memory of the first lane that owns one; null where values may lie anywhere.
inline Memory* owned_memory(const Machine& machine) {
  for (Lane* const lane : machine.lanes()) {
    if (Memory* const memory = lane->memory(); memory != nullptr) return memory;
  }
  return nullptr;
}

}  // namespace troika::lanes
