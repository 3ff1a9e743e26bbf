#include <gtest/gtest.h>

#include <thread>

#include "lanes/null/null_lane.h"
#include "lanes/threaded_lane.h"
#include "lanes/virtual/virtual_machine.h"

namespace troika::lanes {
namespace {

class Counting : public Completion {
 public:
  explicit Counting(int n) : n_left_(n) {}
  void finished(Status) override {
    if (n_left_.fetch_sub(1) == 1) latch.open();
  }
  Latch latch;

 private:
  std::atomic<int> n_left_;
};

TEST(ThreadedLane, RunsOnAThreadOfItsOwn) {
  auto inner = std::make_unique<NullLane>("null");
  NullLane* null = inner.get();
  const auto executable = null->make(1);
  ThreadedLane lane(std::move(inner));
  const lanes::Run run;
  for (int i = 0; i < 100; ++i) {
    Counting counting(1);
    lane.submit(*executable, run, counting);
    counting.latch.wait();
  }
  EXPECT_EQ(null->ran().size(), 100u);
}

TEST(ThreadedLane, ACompletionMaySubmitTheNextTask) {
  struct Chain : Completion {
    void finished(Status) override {
      if (--n_left > 0) {
        lane->submit(*executable, run, *this);
      } else {
        latch.open();
      }
    }
    ThreadedLane* lane = nullptr;
    const Executable* executable = nullptr;
    lanes::Run run;
    int n_left = 1000;
    Latch latch;
  };
  auto inner = std::make_unique<NullLane>("null");
  NullLane* null = inner.get();
  const auto executable = null->make(1);
  Chain chain;
  {
    ThreadedLane lane(std::move(inner));
    chain.lane = &lane;
    chain.executable = executable.get();
    lane.submit(*executable, chain.run, chain);
    chain.latch.wait();
    EXPECT_EQ(null->ran().size(), 1000u);
  }
}

// Two lanes hand tasks to each other, as a scheduler does; both go as soon as the last has ended.
TEST(ThreadedLane, MayBeDestroyedAsSoonAsItsTaskHasEnded) {
  struct PingPong : Completion {
    void finished(Status) override {
      if (--n_left > 0) {
        lanes[n_left % 2]->submit(*executables[n_left % 2], run, *this);
      } else {
        latch.open();
      }
    }
    ThreadedLane* lanes[2] = {};
    const Executable* executables[2] = {};
    lanes::Run run;
    int n_left = 6;
    Latch latch;
  };
  for (int i = 0; i < 500; ++i) {
    PingPong game;
    std::unique_ptr<Executable> executables[2];
    std::unique_ptr<ThreadedLane> lanes[2];
    for (size_t lane = 0; lane < 2; ++lane) {
      auto inner = std::make_unique<NullLane>("null");
      executables[lane] = inner->make(1);
      lanes[lane] = std::make_unique<ThreadedLane>(std::move(inner));
      game.executables[lane] = executables[lane].get();
      game.lanes[lane] = lanes[lane].get();
    }
    game.lanes[0]->submit(*game.executables[0], game.run, game);
    game.latch.wait();
    // The last one ran on lane 1: lane 0, which submitted it, may still be on its way out of that.
    lanes[1].reset();
    lanes[0].reset();
  }
}

// One task on each lane; tells when each ended.
struct Ended : Completion {
  explicit Ended(const VirtualMachine& machine, int* n_left, Latch* latch)
      : machine(machine), n_left(n_left), latch(latch) {}
  void finished(Status) override {
    at_us = machine.clock().now_us();
    if (--*n_left == 0) latch->open();
  }
  const VirtualMachine& machine;
  int* n_left;
  Latch* latch;
  double at_us = -1.0;
};

TEST(VirtualMachine, ComputeAndMemoryOverlapWithinATask) {
  VirtualMachine machine({60.0, {40.0, 40.0}});
  Latch latch;
  int n_left = 1;
  Ended end(machine, &n_left, &latch);
  machine.start(0, {10.0, 50.0, 4e6}, Status::kDone, end);  // 4 MB at 40 GB/s: 100 us
  machine.wait(latch);
  EXPECT_NEAR(end.at_us, 110.0, 1e-6);
  EXPECT_NEAR(machine.busy_us(0), 110.0, 1e-6);
}

TEST(VirtualMachine, LanesShareTheBusAndTheEndMoves) {
  // Alone each would read 8 MB in 200 us; together 60 GB/s give 30 each, until the shorter ends.
  VirtualMachine machine({60.0, {40.0, 40.0}});
  Latch latch;
  int n_left = 2;
  Ended shorter(machine, &n_left, &latch);
  Ended longer(machine, &n_left, &latch);
  machine.start(0, {0.0, 0.0, 6e6}, Status::kDone, shorter);
  machine.start(1, {0.0, 0.0, 8e6}, Status::kDone, longer);
  machine.wait(latch);
  EXPECT_NEAR(shorter.at_us, 200.0, 1e-6);        // 6 MB at 30 GB/s
  EXPECT_NEAR(longer.at_us, 200.0 + 50.0, 1e-6);  // 6 MB by then, the other 2 MB at 40 GB/s
}

TEST(VirtualMachine, ALaneThatWantsLittleLeavesTheRest) {
  VirtualMachine machine({60.0, {10.0, 55.0}});
  Latch latch;
  int n_left = 2;
  Ended slow(machine, &n_left, &latch);
  Ended fast(machine, &n_left, &latch);
  machine.start(0, {0.0, 0.0, 1e6}, Status::kDone, slow);
  machine.start(1, {0.0, 0.0, 5e6}, Status::kDone, fast);
  machine.wait(latch);
  EXPECT_NEAR(slow.at_us, 100.0, 1e-6);
  EXPECT_NEAR(fast.at_us, 100.0, 1e-6);  // 50 GB/s are left for it
}

}  // namespace
}  // namespace troika::lanes
