#include "lanes/virtual/virtual_machine.h"

#include <gtest/gtest.h>

#include <vector>

#include "lanes/virtual/virtual_flash.h"
#include "tests/support/repository.h"

namespace troika::lanes {
namespace {

// A lane that computes for long and reads little takes of the bus what it needs, and no more.
TEST(VirtualMachine, V1ALaneThatComputesLeavesTheBusToOneThatReads) {
  VirtualMachine machine({50.0, {40.0, 40.0}});
  Ended computes, reads;
  machine.start(0, {0.0, 200.0, 2e6}, Status::kDone, computes);  // wants 10 GB/s
  machine.start(1, {0.0, 0.0, 4e6}, Status::kDone, reads);
  machine.wait(reads.latch);
  EXPECT_NEAR(machine.clock().now_us(), 100.0, 1e-6);  // 4 MB at 40 GB/s
  machine.wait(computes.latch);
  EXPECT_NEAR(machine.clock().now_us(), 200.0, 1e-6);
}

// Where all lanes want more than there is, each gets an equal share; what a lane computes beside
// that hides.
TEST(VirtualMachine, V1LanesThatWantMoreThanThereIsShareAlike) {
  VirtualMachine machine({40.0, {40.0, 40.0}});
  Ended first, second;
  machine.start(0, {0.0, 100.0, 3e6}, Status::kDone, first);  // wants 30 GB/s
  machine.start(1, {0.0, 0.0, 6e6}, Status::kDone, second);
  machine.wait(first.latch);
  EXPECT_NEAR(machine.clock().now_us(), 150.0, 1e-6);  // 3 MB at 20 GB/s
  machine.wait(second.latch);
  EXPECT_NEAR(machine.clock().now_us(), 225.0, 1e-6);  // the other 3 MB at 40 GB/s
}

// Work in the background and a core that asks for another lane's reads are one CPU, whose power
// they share, also where a task takes no time.
TEST(VirtualMachine, V5BackgroundAndAskingCountOnceTogether) {
  VirtualMachine machine({50.0, {40.0, 40.0}});
  machine.set_asking(1, 0, 0.3);
  machine.add_background(0, 60.0);
  Ended none, reads;
  machine.start(1, {0.0, 0.0, 0.0}, Status::kDone, none);
  machine.wait(none.latch);
  machine.start(1, {100.0, 0.0, 0.0}, Status::kDone, reads);
  machine.wait(reads.latch);
  EXPECT_LE(machine.powered_us(0), 100.0);
  EXPECT_GE(machine.powered_us(0), 60.0);
}

// Small requests take a flash long, and so they take little of the bus.
TEST(VirtualMachine, V1FlashTakesOfTheBusWhatItReads) {
  const std::string phones = test::repository_file("phones/");
  const CostModel model(plan::read_phone(phones + "8gen3.json"),
                        plan::read_stack(phones + "stacks/powerinfer-2.json"));
  constexpr double kBusGbS = 43.0;
  VirtualMachine machine({kBusGbS, {model.flash_gb_s(), kBusGbS}});
  VirtualFlash flash(machine, model, {});
  std::vector<ReadRequest> requests;
  for (uint64_t i = 0; i < 64; ++i) requests.push_back({0, i << 20, 4096, nullptr});
  const double flash_us = flash.read_us(requests);
  const double flash_gb_s = 64 * 4096 / flash_us * 1e-3;
  ASSERT_LT(flash_gb_s, model.flash_gb_s() / 2);
  lanes::Run run;
  run.reads = requests;
  const auto task = flash.make_read();
  Ended brought, computed;
  flash.submit(*task, run, brought);
  machine.start(1, {0.0, 0.0, 4e6}, Status::kDone, computed);
  machine.wait(computed.latch);
  EXPECT_NEAR(machine.clock().now_us(), 4e6 / (kBusGbS - flash_gb_s) * 1e-3, 1e-6);
  machine.wait(brought.latch);
  EXPECT_NEAR(machine.clock().now_us(), flash_us, 1e-6);
}

// What a processor does that is no lane passes beside the tasks of all lanes.
TEST(VirtualMachine, V1BackgroundWorkWithoutALaneIsNoLanesWork) {
  VirtualMachine machine({0.0, {0.0, 0.0}});
  machine.add_background(-1, 130.0);
  Ended ended;
  machine.start(0, {0.0, 100.0, 0.0}, Status::kDone, ended);
  machine.wait(ended.latch);
  EXPECT_EQ(machine.outside_us(), 100.0);
  machine.finish_background(-1);
  EXPECT_EQ(machine.clock().now_us(), 130.0);
  EXPECT_EQ(machine.outside_us(), 130.0);
  EXPECT_EQ(machine.busy_us(0), 100.0);
  EXPECT_EQ(machine.busy_us(1), 0.0);
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
  EXPECT_EQ(machine.frames().n_periods, 5);  // the sixth ends with the last task
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

// Whoever looks at any two moments sees no more frames than periods between them.
TEST(VirtualMachine, H14AFrameCountsInTheStretchInWhichItsPeriodEnds) {
  VirtualMachine machine({0.0, {0.0}});
  machine.set_rendering({0, 5.0, 20.0});
  Frames before = machine.frames();
  int64_t n_periods = 0;
  for (int i = 0; i < 40; ++i) {
    Ended task;
    machine.start(0, {0.0, 13.0, 0.0}, Status::kDone, task);
    machine.wait(task.latch);
    const Frames now = machine.frames();
    EXPECT_LE(now.n_drawn - before.n_drawn, now.n_periods - before.n_periods) << i;
    EXPECT_LE(now.n_in_time - before.n_in_time, now.n_drawn - before.n_drawn) << i;
    n_periods += now.n_periods - before.n_periods;
    before = now;
  }
  EXPECT_EQ(n_periods, static_cast<int64_t>(machine.clock().now_us() / 20.0));
  EXPECT_GT(before.n_in_time, n_periods / 2);
}

}  // namespace
}  // namespace troika::lanes
