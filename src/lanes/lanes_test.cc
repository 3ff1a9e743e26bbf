#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/error.h"
#include "lanes/bindings.h"
#include "lanes/capped_lane.h"
#include "lanes/next_task.h"
#include "lanes/threaded_lane.h"
#include "lanes/virtual/virtual_machine.h"
#include "model/architecture.h"
#include "tests/support/null_lane.h"
#include "tests/support/tiny_model.h"
#include "weights/switched_blocks.h"

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

TEST(VirtualMachine, ComputeAndMemoryOverlapWithinATask) {
  VirtualMachine machine({60.0, {40.0, 40.0}});
  Ended end;
  // The task reads 4 MB at 40 GB/s, which takes 100 us.
  machine.start(0, {10.0, 50.0, 4e6}, Status::kDone, end);
  machine.wait(end.latch);
  EXPECT_NEAR(machine.clock().now_us(), 110.0, 1e-6);
  EXPECT_NEAR(machine.busy_us(0), 110.0, 1e-6);
}

TEST(VirtualMachine, LanesShareTheBusAndTheEndMoves) {
  // Alone each lane would read 8 MB in 200 us. Together they share 60 GB/s, 30 each, until the
  // shorter task ends.
  VirtualMachine machine({60.0, {40.0, 40.0}});
  Ended shorter, longer;
  machine.start(0, {0.0, 0.0, 6e6}, Status::kDone, shorter);
  machine.start(1, {0.0, 0.0, 8e6}, Status::kDone, longer);
  machine.wait(shorter.latch);
  EXPECT_NEAR(machine.clock().now_us(), 200.0, 1e-6);  // has read 6 MB at 30 GB/s
  // The longer task has read 6 MB by then, and reads the other 2 MB at 40 GB/s.
  machine.wait(longer.latch);
  EXPECT_NEAR(machine.clock().now_us(), 200.0 + 50.0, 1e-6);
}

TEST(VirtualMachine, ALaneThatWantsLittleLeavesTheRest) {
  VirtualMachine machine({60.0, {10.0, 55.0}});
  Ended slow, fast;
  machine.start(0, {0.0, 0.0, 1e6}, Status::kDone, slow);
  machine.start(1, {0.0, 0.0, 5e6}, Status::kDone, fast);
  machine.wait(slow.latch);
  machine.wait(fast.latch);
  EXPECT_NEAR(machine.busy_us(0), 100.0, 1e-6);
  EXPECT_NEAR(machine.busy_us(1), 100.0, 1e-6);  // the fast lane has the 50 GB/s that are left
}

// A memory like a driver's shared buffers, whose pieces are given back.
class SharedMemory : public Memory {
 public:
  std::byte* allocate(size_t bytes) override {
    piece_.assign(bytes, std::byte{0});
    return piece_.data();
  }
  void free(std::byte* begin) noexcept override { n_freed += begin == piece_.data() ? 1 : 0; }
  const std::byte* begin() const { return piece_.data(); }
  size_t size() const { return piece_.size(); }
  int n_freed = 0;

 private:
  std::vector<std::byte> piece_;
};

TEST(Buffers, ValuesLieInTheMemoryOfALane) {
  model::Blueprint blueprint;
  blueprint.values = {{"x", 5, false}, {"y", 33, false}, {"logits", 7, true}};
  blueprint.logits = 2;
  SharedMemory memory;
  {
    const Buffers buffers(blueprint, 9, 3, true, 2, &memory);
    EXPECT_EQ(memory.size(), Buffers::bytes_for(blueprint, 9, 3, 2));
    EXPECT_EQ(buffers.bytes(), memory.size());
    const std::byte* last = memory.begin();
    for (int set = 0; set < 2; ++set) {
      for (model::ValueId id = 0; id < 3; ++id) {
        const View view = buffers.view(id, set);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(view.address) % 64, 0u);
        EXPECT_GE(view.address, last);  // lies behind the value before
        const size_t n_rows = id == 2 ? 3 : 9;
        last = view.address + n_rows * static_cast<size_t>(buffers.width(id)) * sizeof(float);
        EXPECT_LE(last, memory.begin() + memory.size());
        EXPECT_EQ(view.floats(),
                  buffers.view(id).floats() + static_cast<size_t>(set) * buffers.set_stride());
      }
    }
  }
  EXPECT_EQ(memory.n_freed, 1);
}

// A lane without memory is refused in a sentence.
TEST(Buffers, NoMemoryIsASentence) {
  struct NoMemory : PlainMemory {
    std::byte* allocate(size_t) override { return nullptr; }
  } none;
  model::Blueprint blueprint;
  blueprint.values = {{"logits", 7, true}};
  blueprint.logits = 0;
  EXPECT_THROW(Buffers(blueprint, 1, 1, true, 1, &none), Error);
}

TEST(TaskBindings, TakeAllLeasesAndGiveThemBack) {
  test_support::TinyModel model = test_support::tiny_model("llama");
  model.type = test_support::kQ4_0;
  const std::vector<uint8_t> bytes = test_support::tiny_model_bytes(model);
  const gguf::File file = gguf::File::parse(std::as_bytes(std::span(bytes)), "tiny");
  const model::Blueprint blueprint = model::read(file);
  weights::Store store(file, blueprint);
  auto made = std::make_unique<weights::SwitchedBlocks>(blueprint, store, file);
  weights::SwitchedBlocks& blocks = *made;
  store.set_switched(std::move(made));
  const std::vector<model::WeightId> ids = weights::prompt_matrices(blueprint);
  TaskBindings bindings;
  EXPECT_TRUE(bindings.empty());
  EXPECT_TRUE(bindings.acquire(store));
  EXPECT_EQ(bindings.add(ids[0]), 0);
  EXPECT_EQ(bindings.add(ids[1]), 1);
  EXPECT_FALSE(bindings.acquire(store));  // no block is in memory yet
  std::vector<weights::FileRead> reads;
  (void)blocks.use(blocks.begin_rows(0, &reads));
  EXPECT_TRUE(bindings.acquire(store));
  EXPECT_EQ(bindings.lease(1).rows(), blocks.find(ids[1])->rows);
  TaskBindings other = bindings.unbound();
  EXPECT_FALSE(other.lease(1).is_ready());
  EXPECT_TRUE(other.acquire(store));
  EXPECT_EQ(other.lease(1).rows(), bindings.lease(1).rows());
  bindings.give_back();
  EXPECT_FALSE(bindings.lease(1).is_ready());
}

// Work in the background gives way to tasks, and is finished when asked for.
TEST(VirtualMachine, BackgroundWorkPassesWhileALaneHasNoTask) {
  VirtualMachine machine({0.0, {0.0, 0.0}});
  machine.add_background(0, 30.0);
  Ended mine, other;
  machine.start(0, {0.0, 100.0, 0.0}, Status::kDone, mine);
  machine.start(1, {0.0, 120.0, 0.0}, Status::kDone, other);
  machine.wait(mine.latch);
  EXPECT_EQ(machine.busy_us(0), 100.0);
  machine.wait(other.latch);
  EXPECT_EQ(machine.clock().now_us(), 120.0);
  EXPECT_EQ(machine.busy_us(0), 120.0);
  machine.finish_background(0);
  EXPECT_EQ(machine.clock().now_us(), 130.0);
  EXPECT_EQ(machine.busy_us(0), 130.0);
  machine.finish_background(0);
  EXPECT_EQ(machine.clock().now_us(), 130.0);
}

// Tasks go on while a caller waits for work in the background.
TEST(VirtualMachine, TasksGoOnWhileBackgroundWorkIsFinished) {
  VirtualMachine machine({0.0, {0.0, 0.0}});
  Ended other;
  machine.start(1, {5.0, 10.0, 0.0}, Status::kDone, other);
  machine.add_background(0, 40.0);
  machine.finish_background(0);
  EXPECT_TRUE(other.latch.is_open());
  EXPECT_EQ(machine.clock().now_us(), 40.0);
  EXPECT_EQ(machine.busy_us(1), 15.0);
}

// Each software of a phone takes its own time to hand over.
TEST(VirtualMachine, HandoversAreThoseOfTheSoftwareThatBegins) {
  VirtualMachine machine({0.0, {0.0, 0.0}});
  machine.set_transitions({{{{0.0, 5.0}, {5.0, 0.0}}, {}}, {{{0.0, 400.0}, {400.0, 0.0}}, {}}});
  for (const int software : {0, 1}) {
    Ended first, second;
    machine.start(0, {0.0, 10.0, 0.0}, Status::kDone, first);
    machine.wait(first.latch);
    const double start_us = machine.clock().now_us();
    machine.start(1, {0.0, 10.0, 0.0}, Status::kDone, second, software);
    machine.wait(second.latch);
    EXPECT_EQ(machine.clock().now_us() - start_us, software == 0 ? 15.0 : 410.0);
  }
}

// A lane that reads from flash comes behind the processors, and transitions concern only
// processors.
TEST(VirtualMachine, LanesBehindTheProcessorsTakeNothingOverAndNeedNoRestart) {
  VirtualMachine machine({0.0, {0.0, 0.0}});
  machine.set_transitions({{{{0.0}}, {7.0}}});
  Ended processor, flash, idle_flash;
  machine.start(0, {0.0, 10.0, 0.0}, Status::kDone, processor);
  machine.wait(processor.latch);
  EXPECT_EQ(machine.clock().now_us(), 17.0);
  machine.start(1, {0.0, 10.0, 0.0}, Status::kDone, flash);
  machine.wait(flash.latch);
  EXPECT_EQ(machine.clock().now_us(), 27.0);
  machine.add_background(0, 30.0);
  machine.finish_background(0);
  machine.start(1, {0.0, 10.0, 0.0}, Status::kDone, idle_flash);
  machine.wait(idle_flash.latch);
  EXPECT_EQ(machine.clock().now_us(), 67.0);
}

// A lane whose tasks take real time.
class TimedLane : public NullLane {
 public:
  explicit TimedLane(double task_us) : NullLane("timed"), task_us_(task_us) {}
  void submit(const Executable&, const Run&, Completion& completion) override {
    const double end_us = RealClock().now_us() + task_us_;
    while (RealClock().now_us() < end_us) continue;
    completion.finished(Status::kDone);
  }

 private:
  double task_us_;
};

TEST(CappedLane, H14RestsBehindEachTaskForItsShareOfTheTime) {
  constexpr double kTaskUs = 300.0;
  for (const double share : {0.25, 0.5, 1.0}) {
    const RealClock clock;
    auto inner = std::make_unique<TimedLane>(kTaskUs);
    const auto executable = inner->make(1);
    CappedLane lane(std::move(inner), share, clock);
    EXPECT_EQ(lane.info().queue_depth, 1);
    double rested_us = 0.0;  // is until when the test expects the lane to rest
    for (int i = 0; i < 5; ++i) {
      Ended ended;
      lane.submit(*executable, {}, ended);
      ASSERT_EQ(ended.status, Status::kDone);
      const double now_us = clock.now_us();
      EXPECT_GE(lane.started_us(), rested_us);
      EXPECT_LE(lane.started_us() + kTaskUs, now_us);
      rested_us = lane.started_us() + kTaskUs / share;
    }
  }
}

class FailingLane : public NullLane {
 public:
  FailingLane() : NullLane("failing") {}
  void submit(const Executable&, const Run&, Completion& completion) override {
    completion.finished(Status::kFailed);
  }
  std::string problem() const override { return "it is gone"; }
};

// A task that fails in the lane inside is reported as failed.
TEST(CappedLane, H14TellsWhatTheLaneInsideSays) {
  auto inner = std::make_unique<FailingLane>();
  const auto executable = inner->make(1);
  const RealClock clock;
  CappedLane lane(std::move(inner), 0.5, clock);
  Ended ended;
  lane.submit(*executable, {}, ended);
  EXPECT_EQ(ended.status, Status::kFailed);
  EXPECT_EQ(lane.problem(), "it is gone");
}

TEST(VirtualMachine, H14ALaneRestsAndTheNextTaskWaitsForThat) {
  VirtualMachine machine({0.0, {0.0, 0.0}});
  machine.set_queue_depth(0, 2);
  machine.set_busy_share(0, 0.25);
  Ended first, second, other;
  machine.start(0, {0.0, 10.0, 0.0}, Status::kDone, first);
  machine.start(0, {0.0, 20.0, 0.0}, Status::kDone, second);
  machine.start(1, {0.0, 100.0, 0.0}, Status::kDone, other);
  machine.wait(first.latch);
  EXPECT_EQ(machine.clock().now_us(), 10.0);
  machine.wait(second.latch);
  EXPECT_EQ(machine.clock().now_us(), 60.0);  // has 30 us of rest behind the first task
  EXPECT_EQ(machine.started_us(0), 40.0);
  EXPECT_EQ(machine.busy_us(0), 30.0);
  machine.wait(other.latch);
  EXPECT_EQ(machine.clock().now_us(), 100.0);  // shows that the other lane does not rest
}

// A frame stands in the queue behind the tasks that were submitted before it.
TEST(VirtualMachine, H14FramesAreLateBehindAFullQueue) {
  VirtualMachine machine({0.0, {0.0}});
  machine.set_queue_depth(0, 8);
  Ended tasks[3];
  for (Ended& task : tasks) machine.start(0, {0.0, 40.0, 0.0}, Status::kDone, task);
  machine.set_rendering({0, 5.0, 20.0});
  machine.wait(tasks[2].latch);
  EXPECT_EQ(machine.clock().now_us(), 120.0);
  EXPECT_EQ(machine.frames().n_periods, 6);
  EXPECT_EQ(machine.frames().n_drawn, 0);
  EXPECT_EQ(machine.busy_us(0), 120.0);  // frames do not count for the lane
}

TEST(VirtualMachine, H14FramesAreInTimeBetweenTasksThatRest) {
  VirtualMachine machine({0.0, {0.0}});
  machine.set_rendering({0, 5.0, 20.0});
  machine.set_busy_share(0, 0.5);
  for (int i = 0; i < 10; ++i) {
    Ended task;
    machine.start(0, {0.0, 8.0, 0.0}, Status::kDone, task);
    machine.wait(task.latch);
  }
  EXPECT_GE(machine.frames().n_periods, 8);
  EXPECT_GE(machine.frames().n_in_time, machine.frames().n_periods - 1);
  EXPECT_GE(machine.clock().now_us(), 10 * 8.0 + 9 * 8.0);
}

TEST(NextTask, H8ExpectsWhatAWaitBehindTheSameTaskTook) {
  NextTask next;
  std::atomic<uint32_t> n{0};
  const int some = 0, other = 0;
  EXPECT_LT(next.expected_us(&some), 0.0);
  // Where others use the processors, this thread may begin to wait long after the other one: then
  // it waits for less than the pause, or not at all.
  constexpr uint32_t kMostWaits = 1000;
  uint32_t i = 0;
  for (; i < kMostWaits && (i < 4 || next.expected_us(&some) < 1000.0); ++i) {
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      n.fetch_add(1, std::memory_order_release);
      n.notify_one();
    });
    next.wait(n, i, &some);
    EXPECT_EQ(n.load(), i + 1);
    later.join();
  }
  EXPECT_GE(next.expected_us(&some), 1000.0);
  EXPECT_LT(next.expected_us(&other), 0.0);
  next.wait(n, 0, &some);  // returns at once, because the task has ended already
}

// Submits tasks some time after a wait for them has begun.
class LateTasks {
 public:
  void wait_for_one(int after_ms) {
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
      n_.fetch_add(1, std::memory_order_release);
      n_.notify_one();
    });
    next_.wait(n_, n_seen_++, &last_);
    later.join();
  }
  double expected_us() const { return next_.expected_us(&last_); }

 private:
  NextTask next_;
  std::atomic<uint32_t> n_{0};
  uint32_t n_seen_ = 0;
  const int last_ = 0;
};

TEST(NextTask, H8AWaitThatWasExpectedTooLongShrinksWithinAFewTasks) {
  constexpr double kShort = 5e3;
  LateTasks tasks;
  // On a busy machine the wait may take so long that nothing is learned from it.
  for (int i = 0; i < 20 && tasks.expected_us() < kShort; ++i) tasks.wait_for_one(60);
  ASSERT_GE(tasks.expected_us(), kShort);
  // Five tasks would do where no thread comes late.
  for (int i = 0; i < 20 && tasks.expected_us() >= kShort; ++i) tasks.wait_for_one(1);
  EXPECT_LT(tasks.expected_us(), kShort);
}

TEST(NextTask, H8AFirstWaitMayBeAPause) {
  constexpr double kAwake = 300.0;
  LateTasks tasks;
  for (int i = 0; i < 20 && tasks.expected_us() < 0.0; ++i) tasks.wait_for_one(80);
  ASSERT_GE(tasks.expected_us(), 0.0);
  EXPECT_LE(tasks.expected_us(), kAwake);
}

TEST(NextTask, H8APauseIsNoWorkThatHasGrown) {
  LateTasks tasks;
  for (int i = 0; i < 20 && (i < 3 || tasks.expected_us() < 0.0); ++i) tasks.wait_for_one(1);
  const double before_us = tasks.expected_us();
  ASSERT_GE(before_us, 0.0);
  tasks.wait_for_one(80);
  constexpr double kAwake = 300.0;
  EXPECT_LE(tasks.expected_us(), 2.0 * std::max(before_us, kAwake));
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

}  // namespace
}  // namespace troika::lanes
