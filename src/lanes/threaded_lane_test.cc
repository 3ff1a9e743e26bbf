#include "lanes/threaded_lane.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/null_lane.h"

namespace troika::lanes {
namespace {

using test::NullLane;

TEST(ThreadedLane, RunsOnAThreadOfItsOwn) {
  auto inner = std::make_unique<NullLane>("null");
  NullLane* null = inner.get();
  const auto executable = null->make(1);
  ThreadedLane lane(std::move(inner));
  const lanes::Run run;
  for (int i = 0; i < 100; ++i) {
    Ended task;  // may go as soon as it is told
    lane.submit(*executable, run, task);
    task.latch.wait();
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

// Two lanes hand tasks to each other, as a scheduler does. Both are destroyed as soon as the last
// task has ended.
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
    // The last task ran on lane 1. Lane 0, which submitted it, may still be returning from that.
    lanes[1].reset();
    lanes[0].reset();
  }
}

// Every task runs, whether its wait is longer or shorter than expected.
TEST(ThreadedLane, H8FastHandoversRunEveryTask) {
  auto inner = std::make_unique<NullLane>("null");
  NullLane* null = inner.get();
  const auto executable = null->make(1);
  std::vector<Ended> ended(200);  // outlives the lane's thread
  ThreadedLane lane(std::move(inner), plan::HandoverKind::kFast);
  const lanes::Run run;
  for (size_t i = 0; i < ended.size(); ++i) {
    lane.submit(*executable, run, ended[i]);
    ended[i].latch.wait();
    if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50 * i));
  }
  EXPECT_EQ(null->ran().size(), 200u);
}

// Some task comes while the thread watches for it, at the latest when the machine has little else
// to do. In the ordinary way the thread sleeps until the system wakes it.
TEST(ThreadedLane, H8OnlyFastHandoversMeetAThreadThatIsAwake) {
  constexpr size_t kMostTasks = 5000;
  for (const plan::HandoverKind handover :
       {plan::HandoverKind::kOrdinary, plan::HandoverKind::kFast}) {
    const bool is_fast = handover == plan::HandoverKind::kFast;
    auto inner = std::make_unique<NullLane>("null");
    const auto executable = inner->make(1);
    std::vector<Ended> ended(kMostTasks);  // outlives the lane's thread
    ThreadedLane lane(std::move(inner), handover);
    const lanes::Run run;
    for (size_t i = 0; i < (is_fast ? kMostTasks : 20) && lane.n_awake() == 0; ++i) {
      lane.submit(*executable, run, ended[i]);
      ended[i].latch.wait();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    EXPECT_EQ(lane.n_awake() > 0, is_fast);
  }
}

}  // namespace
}  // namespace troika::lanes
